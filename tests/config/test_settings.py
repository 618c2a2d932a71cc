"""Settings are found upwards, and what is wrong with them is named with its path and the way out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.config import Settings, find_settings, load_settings
from samedevice.config.settings import checked
from samedevice.model.errors import UserError


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(path: str) -> str:
    with pytest.raises(UserError) as caught:
        load_settings(path)
    return str(caught.value)


WHOLE = """
[tool.samedevice]
select = ["correctness", "transfer-in-loop"]
ignore = ["hardcoded-device"]
exclude = ["legacy"]
respect-gitignore = false
cache-dir = ".cache"

[tool.samedevice.per-path-ignores]
"tests/*" = ["factory-without-device"]
"""


def test_every_setting_is_read(tmp_path):
    file = write(tmp_path / "pyproject.toml", WHOLE)

    assert load_settings(file) == Settings(
        select=("correctness", "transfer-in-loop"),
        ignore=("hardcoded-device",),
        exclude=("legacy",),
        per_path_ignores={"tests/*": ("factory-without-device",)},
        respect_gitignore=False,
        cache_dir=".cache",
        file=file,
    )


def test_a_file_of_ours_has_the_same_settings_without_the_table(tmp_path):
    file = write(tmp_path / "samedevice.toml", 'ignore = ["one"]\n')

    assert load_settings(file).ignore == ("one",)


def test_the_nearest_file_upwards_counts(tmp_path):
    write(tmp_path / "pyproject.toml", '[tool.samedevice]\nignore = ["far"]\n')
    write(tmp_path / "a" / "samedevice.toml", 'ignore = ["near"]\n')
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)

    assert find_settings(str(tmp_path / "a" / "b" / "c")).ignore == ("near",)
    assert find_settings(str(tmp_path)).ignore == ("far",)


def test_a_pyproject_without_our_table_is_passed_over(tmp_path):
    write(tmp_path / "pyproject.toml", '[tool.samedevice]\nignore = ["far"]\n')
    write(tmp_path / "a" / "pyproject.toml", '[tool.other]\nname = "samedevice"\n')

    assert find_settings(str(tmp_path / "a")).ignore == ("far",)


def test_a_broken_pyproject_that_does_not_mention_us_is_not_our_concern(tmp_path):
    write(tmp_path / "pyproject.toml", "[[[")

    assert find_settings(str(tmp_path)).file is None or find_settings(str(tmp_path)).file != str(
        tmp_path / "pyproject.toml"
    )


def test_our_own_file_comes_before_pyproject(tmp_path):
    write(tmp_path / "pyproject.toml", '[tool.samedevice]\nignore = ["two"]\n')
    write(tmp_path / "samedevice.toml", 'ignore = ["one"]\n')

    assert find_settings(str(tmp_path)).ignore == ("one",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ignroe = []", "unknown setting `ignroe`; did you mean `ignore`?"),
        ("per_path_ignores = {}", "unknown setting `per_path_ignores`; did you mean `per-path-ignores`?"),
        (
            "zzz = 1",
            "unknown setting `zzz`; the settings are `cache-dir`, `exclude`, `ignore`, `per-path-ignores`, "
            "`respect-gitignore`, `select`",
        ),
        ("select = 'one'", "`select` must be a list of strings, not a string"),
        ("select = ['one', 2]", "`select[1]` must be a string, not an integer"),
        ("respect-gitignore = 'no'", "`respect-gitignore` must be true or false, not a string"),
        ("cache-dir = 1.5", "`cache-dir` must be a string, not a float"),
        ("exclude = 1979-05-27", "`exclude` must be a list of strings, not a date or time"),
        (
            "per-path-ignores = ['a']",
            "`per-path-ignores` must be a table from patterns to lists of strings, not an array",
        ),
        (
            "[per-path-ignores]\n'a/*' = 'one'",
            '`per-path-ignores."a/*"` must be a list of strings, not a string',
        ),
        ("[per-path-ignores]\n'a/*' = [true]", '`per-path-ignores."a/*"[0]` must be a string, not a boolean'),
    ],
)
def test_a_wrong_setting_is_named_with_its_path(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "samedevice.toml", text + "\n")

    assert refusal("samedevice.toml") == f"samedevice.toml: {message}"


def test_the_path_of_a_setting_in_pyproject_starts_at_the_top(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pyproject.toml", "[tool.samedevice]\nselect = 1\n")

    assert refusal("pyproject.toml") == (
        "pyproject.toml: `tool.samedevice.select` must be a list of strings, not an integer"
    )


def test_broken_toml_is_named_with_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "samedevice.toml", "select = = 1\n")

    assert refusal("samedevice.toml").startswith("samedevice.toml is not valid TOML: ")
    assert "line 1" in refusal("samedevice.toml")


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert refusal("none.toml") == "cannot read the settings in none.toml: No such file or directory"


def test_a_file_that_is_not_utf8_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samedevice.toml").write_bytes(b"exclude = ['\xe9']\n")

    assert refusal("samedevice.toml") == "samedevice.toml is not UTF-8, which TOML must be"


def test_a_table_of_another_kind_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pyproject.toml", "[tool]\nsamedevice = 1\n")

    assert refusal("pyproject.toml") == "pyproject.toml: `tool.samedevice` must be a table"


def test_ignores_hold_for_the_paths_that_fit(tmp_path):
    settings = Settings(
        per_path_ignores={"tests/*": ("one",), "*.py": ("two",)}, file=str(tmp_path / "x.toml")
    )

    assert settings.ignored_at(str(tmp_path / "tests" / "a.py")) == {"one", "two"}
    assert settings.ignored_at(str(tmp_path / "a.py")) == {"two"}


TOML = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["select", "ignore", "exclude", "per-path-ignores", "respect-gitignore", "cache-dir"])


@given(st.dictionaries(KEYS | st.text(max_size=8), TOML, max_size=4))
def test_any_table_gives_settings_or_a_clear_refusal(table):
    try:
        checked(table, "a.toml", "a.toml", "")
    except UserError as error:
        assert str(error).startswith("a.toml: ")
