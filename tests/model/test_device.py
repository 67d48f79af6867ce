"""Which device and precision a model gets, and what becomes of torch's errors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pipeline.engines.device import Place, device_errors, gpu_use, wants_gpu  # noqa: E402
from pipeline.errors import DeviceOutOfMemoryError, EngineBrokenError  # noqa: E402

needs_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def test_on_the_cpu_a_model_runs_in_full_precision_unless_told_otherwise():
    assert Place.find("cpu", "auto") == Place("cpu", "fp32")
    assert Place.find("cpu", "bf16") == Place("cpu", "bf16")


@needs_cpu
def test_without_a_gpu_the_device_is_the_cpu():
    assert Place.find("auto", "auto") == Place("cpu", "fp32")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_with_a_gpu_a_model_runs_on_it_in_half_precision():
    assert Place.find("auto", "auto") == Place("cuda", "fp16")
    assert wants_gpu("auto")


def test_every_precision_has_a_wider_one_but_the_widest():
    assert Place("cpu", "fp16").wider() == Place("cpu", "fp32")
    assert Place("cpu", "bf16").wider() == Place("cpu", "fp32")
    assert Place("cuda", "bf16").wider() == Place("cuda", "fp32")
    assert Place("cuda", "fp32").wider() is None


def test_whether_a_gpu_is_wanted_is_told_without_torch():
    assert wants_gpu("cuda")
    assert not wants_gpu("cpu")


def test_the_cpu_has_no_memory_of_a_gpu_to_tell_of():
    assert gpu_use("cpu") is None


def test_memory_that_ran_out_is_told_as_what_fewer_pages_may_mend():
    with pytest.raises(DeviceOutOfMemoryError, match=r"^CUDA out of memory$"), device_errors():
        raise torch.OutOfMemoryError("CUDA out of memory\nand much more about it")


def test_a_broken_device_is_told_as_what_another_process_may_mend():
    with pytest.raises(EngineBrokenError, match="illegal memory access"), device_errors():
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered", 700)


def test_other_errors_are_the_fault_of_a_page():
    with pytest.raises(ValueError, match="page"), device_errors():
        raise ValueError("page")
