import json

from pipelines.ingest.recognise import recognise
from pipelines.ingest.trainer_state import FORMAT
from tests.ingest.helpers import parse

STATE = {
    "best_metric": None, "epoch": 3.0, "eval_steps": 500, "global_step": 20, "is_hyper_param_search": False,
    "log_history": [
        {"epoch": 0.5, "learning_rate": 5e-05, "loss": 2.3, "step": 10},
        {"epoch": 1.0, "learning_rate": 4e-05, "loss": 2.1, "step": 20},
        {"epoch": 1.0, "step": 20, "train_loss": 2.2, "train_runtime": 19.7},
    ],
    "max_steps": 20,
}  # fmt: skip


def test_its_steps_name_no_time():
    text = json.dumps(STATE, indent=2)
    assert recognise([text.encode()])[0] is FORMAT
    result = parse(FORMAT, text)
    assert (result.events, result.rejects, result.tally.ignored_count) == ([], [], 3)
    assert result.tally.notes == [
        (
            "it reached step 20 in 19.7 s of training, but a trainer_state.json says of no step "
            "when it was: give the job's console log with its progress bar"
        )
    ]


def test_a_state_that_is_cut_off_is_accounted_for():
    text = json.dumps(STATE)[:300]
    result = parse(FORMAT, text)
    assert len(result.rejects) == 1
