"""Tracebacks and logs as programs, notebooks and launchers write them."""

MESSAGE = (
    "Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors on cuda:0"
    " (when checking argument in method wrapper_CUDA_addmm)"
)
PAIR = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"

CPYTHON = f"""\
Traceback (most recent call last):
  File "/home/u/project/train.py", line 30, in <module>
    main()
    ~~~~^^
  File "/home/u/project/train.py", line 12, in main
    out = model(x)
          ^^^^^^^^
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/u/project/model.py", line 7, in forward
    return self.fc(x)
           ^^^^^^^^^^
RuntimeError: {MESSAGE}
"""

IPYTHON = """\
\x1b[0;31m---------------------------------------------------------------------------\x1b[0m
\x1b[0;31mRuntimeError\x1b[0m                              Traceback (most recent call last)
Cell \x1b[0;32mIn[5], line 3\x1b[0m
\x1b[1;32m      1\x1b[0m net = Net()\x1b[38;5;241m.\x1b[39mto(\x1b[38;5;124m'cuda'\x1b[39m)
\x1b[0;32m----> 3\x1b[0m out \x1b[38;5;241m=\x1b[39m net(x)

File \x1b[0;32m/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py:1736\x1b[0m, in \x1b[0;36mModule._wrapped_call_impl\x1b[0;34m(self, *args, **kwargs)\x1b[0m
\x1b[0;32m-> 1736\x1b[0m     \x1b[38;5;28;01mreturn\x1b[39;00m \x1b[38;5;28mself\x1b[39m

Cell \x1b[0;32mIn[2], line 9\x1b[0m, in \x1b[0;36mNet.forward\x1b[0;34m(self, x)\x1b[0m
\x1b[0;32m----> 9\x1b[0m     \x1b[38;5;28;01mreturn\x1b[39;00m x + y

\x1b[0;31mRuntimeError\x1b[0m: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""

OLD_IPYTHON = """\
---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
<ipython-input-7-e0c7d1b8d2a7> in <module>
      1 for x, y in loader:
----> 2     out = model(x)

/usr/local/lib/python3.7/dist-packages/torch/nn/modules/module.py in _call_impl(self, *input, **kwargs)
    887         else:
--> 889             result = self.forward(*input, **kwargs)
    890         for hook in itertools.chain(

<ipython-input-4-0f6d1c8a1b22> in forward(self, x)
      7     def forward(self, x):
----> 8         return self.conv(x)

RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same
"""

RICH = """\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /home/user/project/train.py:42 in <module>                                   │
│                                                                              │
│   39 │                                                                       │
│ ❱ 42 │   main()                                                              │
│   43                                                                         │
│ /home/user/.cache/a/very/long/path/to/some/directory/with/many/parts/model.p │
│ y:31 in forward                                                              │
│                                                                              │
│ ❱ 31 │   │   return x + self.pe                                              │
╰──────────────────────────────────────────────────────────────────────────────╯
RuntimeError: Expected all tensors to be on the same device, but found at least
two devices, cuda:0 and cpu!
"""

PYTEST = f"""\
    def test_model():
        model = Net().cuda()
>       out = model(torch.rand(2, 3))

tests/test_model.py:12:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
../venv/lib/python3.11/site-packages/torch/nn/modules/module.py:1751: in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

self = Net()

    def forward(self, x):
>       return self.fc(x)
E       RuntimeError: {MESSAGE}

src/net.py:9: RuntimeError
=========================== short test summary info ============================
FAILED tests/test_model.py::test_model - RuntimeError: Expected all tensors to be on the same device, but got mat1 is...
"""

WORKER = """\
Traceback (most recent call last):
  File "/home/u/project/train.py", line 5, in <module>
    for batch in loader:
  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 732, in __next__
    data = self._next_data()
RuntimeError: Caught RuntimeError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
    data = fetcher.fetch(index)
  File "/home/u/project/data.py", line 14, in __getitem__
    return self.x[i].to("cuda")
RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
"""


def prefixed(text: str, *prefixes: str) -> str:
    """Each line of the text once for each prefix, interleaved."""
    return "".join(f"{prefix}{line}\n" for line in text.splitlines() for prefix in prefixes)
