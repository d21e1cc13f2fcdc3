from __future__ import annotations

import tvm
from tvm import relay

from tests.relay_modules import const, module, var
from tvm_fusionx.passes.pack_layouts import PackLayouts
from tvm_fusionx.processors.gpu import Gpu, describe_gpu, is_gpu


def test_a_target_says_what_it_has() -> None:
    target = tvm.target.Target(
        "opencl -max_threads_per_block=64 -max_shared_memory_per_block=32768 -max_function_args=31"
    )
    gpu = describe_gpu(target)
    assert (gpu.items, gpu.local_bytes, gpu.arguments) == (64, 32768, 31)
    assert not gpu.has_textures
    assert describe_gpu(tvm.target.Target("opencl")) == Gpu()


def test_it_answers_what_layouts_ask_every_processor() -> None:
    x = var("x", 1, 8, 8, 8)
    body = relay.nn.conv2d(x, const(8, 8, 3, 3), padding=(1, 1))
    packed = PackLayouts(tvm.target.Target("opencl"))(module(body, params=[x]))
    assert "NCHW4c" in str(packed)


def test_groups_are_no_larger_than_registers_allow() -> None:
    assert describe_gpu(tvm.target.Target("opencl -max_threads_per_block=1024")).items == 256


def test_adreno_has_textures() -> None:
    gpu = describe_gpu(tvm.target.Target("opencl -device=adreno -texture_spatial_limit=8192"))
    assert gpu.has_textures
    assert gpu.texture_extent == 8192


def test_only_opencl_is_a_gpu() -> None:
    assert is_gpu(tvm.target.Target("opencl"))
    assert not is_gpu(tvm.target.Target("llvm"))
