"""What the environment of a process says of it."""

import pytest

from ettledger.recorder.environment import of_launcher, of_trainer

SLURM = {"SLURM_JOB_ID": "77", "SLURM_CLUSTER_NAME": "west", "SLURM_PROCID": "0"}
TORCHRUN = {
    "RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "2", "WORLD_SIZE": "16",
    "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "rdzv-9",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, {"rank": 0, "leads": True}),  # a process that nobody numbered is alone
        (SLURM, {"job_id": "77", "cluster": "west", "attempt": 0, "rank": 0}),
        (SLURM | {"SLURM_RESTART_COUNT": "2", "SLURM_PROCID": "7"}, {"attempt": 2, "rank": 7, "leads": False}),
        (SLURM | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}, {"job_id": "70_3"}),
        (SLURM | {"ETTLEDGER_JOB_ID": "mine", "ETTLEDGER_CLUSTER": "c"}, {"job_id": "mine", "cluster": "c"}),
        (SLURM | {"ETTLEDGER_ATTEMPT": "9"}, {"attempt": 9}),
        (TORCHRUN, {"job_id": "rdzv-9", "attempt": None, "rank": 5, "gpus": 16, "held": None, "is_elastic": True}),
        # Each agent counts its own restarts: no number of an attempt, but the hardware was kept.
        (TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "2"}, {"attempt": None, "held": True}),
        # Under Slurm restarts in place are inside one attempt, and its id is no run's.
        (TORCHRUN | SLURM | {"TORCHELASTIC_RESTART_COUNT": "2"}, {"job_id": "77", "attempt": 0, "rank": 5, "held": None}),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "none"}, {"job_id": None}),
        ({"LOCAL_RANK": "1", "NODE_RANK": "0"}, {"rank": 1, "leads": False}),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, {"rank": None, "leads": False}),
        ({"RANK": "x", "ETTLEDGER_GPUS": "8", "WORLD_SIZE": "2"}, {"rank": 0, "gpus": 8}),
    ],
)  # fmt: skip
def test_trainer(environment, said):
    who = of_trainer(environment)
    assert {name: getattr(who, name) for name in said} == said
    assert who.host


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (SLURM, {"job_id": "77", "attempt": 0, "rank": None, "leads": True, "gpus": None}),
        (SLURM | {"SLURM_GPUS": "16"}, {"gpus": 16}),
        (SLURM | {"SLURM_GPUS": "a100:16"}, {"gpus": None}),
        (SLURM | {"SLURM_NODEID": "0"}, {"leads": True}),
        (SLURM | {"SLURM_NODEID": "1"}, {"leads": False}),
    ],
)
def test_launcher(environment, said):
    who = of_launcher(environment)
    assert {name: getattr(who, name) for name in said} == said
