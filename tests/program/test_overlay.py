"""What a run reads in the place of files, in its own process and in those that it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import inspect, io, linecache, multiprocessing, pathlib, runpy
import part

def work(queue):
    import part
    queue.put(part.value())

if __name__ == "__main__":
    print(part.value(), inspect.getsource(part.value).count("edited"), linecache.getline(part.__file__, 2).strip())
    print(pathlib.Path(part.__file__).read_text() == open(part.__file__).read(), io.open is open)
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    with open(part.__file__, "a") as stream:
        stream.write("# written\\n")
"""


def test_edited_files_are_read_in_the_place_of_those_on_the_disk(tmp_path: Path) -> None:
    old = "def value():\n    return 'on disk'\n"
    part, program = tmp_path / "part.py", tmp_path / "program.py"
    part.write_text(old)
    program.write_text(PROGRAM)
    edited, manifest = tmp_path / "edited", tmp_path / "instead.json"
    edited.write_text("def value():\n    return 'edited!'\n")
    manifest.write_text(json.dumps({os.path.realpath(part): str(edited)}))
    compiled = subprocess.run(
        [sys.executable, "-c", "import part"], cwd=tmp_path, check=True
    )  # bytecode of the old
    assert compiled.returncode == 0
    code = "from samedevice.inherit import arm; arm(); import runpy; runpy.run_path('program.py', run_name='__main__')"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "SAMEDEVICE_OVERLAY": str(manifest), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.splitlines() == ["edited! 1 return 'edited!'", "True True", "edited!"]
    assert part.read_text() == old + "# written\n"
