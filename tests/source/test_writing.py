"""Files are replaced whole, or not at all."""

import os
import stat

import pytest

from samedevice.source.writing import write_atomically


def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o755)
    write_atomically(str(path), b"new")

    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o755)
    assert os.listdir(tmp_path) == ["a.py"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real.py").write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to("real.py")
    write_atomically(str(link), b"new")

    assert link.is_symlink()
    assert (tmp_path / "real.py").read_bytes() == b"new"


def test_what_somebody_else_has_changed_is_not_overwritten(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"theirs")
    with pytest.raises(OSError, match="changed meanwhile"):
        write_atomically(str(path), b"new", expected=b"old")

    assert path.read_bytes() == b"theirs"


def test_a_failed_write_leaves_the_old_file_and_no_scratch(tmp_path, monkeypatch):
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(str(path), b"new")

    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_new_file_gets_the_usual_mode_and_a_leftover_is_no_obstacle(tmp_path):
    (tmp_path / f"a.py.{os.getpid()}.samedevice-new").write_bytes(b"of a killed process")
    before = os.umask(0o027)
    try:
        write_atomically(str(tmp_path / "a.py"), b"new")
    finally:
        os.umask(before)

    assert (tmp_path / "a.py").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a.py").stat().st_mode) == 0o640
