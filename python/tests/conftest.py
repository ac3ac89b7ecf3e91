"""Settings that must be there before PyTorch is imported."""

import os

os.environ.setdefault("ZELLIGE_DEVICES", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Every program that a test compiles is checked by code that shares nothing with the passes.
os.environ.setdefault("ZELLIGE_CHECK", "1")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "ignore::zellige.spyre.FallbackWarning")
    config.addinivalue_line("filterwarnings", "ignore:float32 tensors are stored")
    config.addinivalue_line("filterwarnings", "ignore:int64 tensors are stored")
    config.addinivalue_line("markers", "long: minutes; runs with ZELLIGE_LONG=1")
