import pytest

from pipelines.ingest.accelerators import count_accelerators


@pytest.mark.parametrize(
    ("platform", "path", "ranks", "worlds", "number"),
    [
        ("16xNVIDIA GB200", "tyche_ngpu64_ngc25.03_hugectr/dlrm_dcnv2/result_0.txt", 1, [], 64),
        ("624xNVIDIA GB200", "v5.0__IBM__carina_ngpu2496_ngc25.04__llama31__result_0.txt", 2496, [], 2496),
        ("64xNVIDIA HGX H100", "eos-dfw_n64_ngc25.01_nemo/llama31_405b/result_0.txt", 512, [], 512),
        ("1344xND_H100_v5", "ND_H100_v5_n1344_pytorch/gpt3/result_1.txt", 1, [], 10752),
        ("1cc_n4", "lambda_1cc_n4_H100-SXM/llama2_70b_lora/result_1.txt", 0, [32], 32),
        ("16xNVIDIA DGX H100", "eos_n16_ngc24.04/dlrm_dcnv2/result_0.txt", 1, [], 128),
        ("8xDGX H100", "x/y/z", 1, [], 64),
        ("1xXE9680x8H100-SXM-80GB", "XE9680x8H100-SXM-80GB/dlrm_dcnv2/result_3.txt", 1, [], 8),
        ("1xMI300X", "v5.0__Dell__1xXE9680x8MI300X__llama2_70b_lora__result_0.txt", 1, [], 8),
        ("64xPLACEHOLDER", "64xBM.GPU.H200.8/llama2_70b_lora/result_0.txt", 1, [], 512),
        ("128xPLACEHOLDER", "nebius_soperator_8xH200_n128_ngc25.01_nemo/llama31/result_1.txt", 1, [], 1024),
        # A number before a chip's name alone: nodes in some logs, chips in others.
        ("1xMI325X", "MI325X_EPYC_9575F_pytorch/llama2_70b_lora/result_0.txt", 1, [], None),
        ("16xNVIDIA GB200", "x/y/z", 1, [], None),
        ("tinybox_8xMI300X", "tinybox_8xMI300X/bert/result_0.txt", 1, [], None),
        ("tpu-v5p", "cloud-tpu-v5p-12288-maxtext/gpt3/result_0.txt", 1, [], None),
        ("X86", "16-nodes-SPR-pytorch-open/bert/result_0.txt", 64, [], None),
        ("", "x/y/z", 0, [8, 16], None),
        ("", "", 0, [], None),
    ],
)  # fmt: skip
def test_accelerators_are_what_the_log_and_its_path_say(platform, path, ranks, worlds, number):
    count = count_accelerators(
        platform=platform, path=path, ranks_started=ranks, world_sizes=set(worlds)
    )
    assert count.number == number
    assert count.evidence
