"""Mistakes in the loss, the optimizer and a resumed training."""

from mutant import mutant

STORAGE = "training/checkpoints/checkpoint_io.py"
TRAINING_STEP = "training/step.py"
MASK = "real = targets != self.padding"
PREDICTED = "training/test_step.py::test_tokens_and_end_are_predicted_from_those_before"

MUTANTS = (
    mutant(
        "loss-1",
        "mean over ranks",
        "training/test_sums.py::test_a_step_is_of_all_its_tokens",
        (
            "training/step.py",
            "self.unit = mean_over_ranks(tokens, objective)",
            "self.unit = tokens",
        ),
    ),
    mutant(
        "loss-1b",
        "mean over accumulated batches",
        "training/test_sums.py::test_a_step_is_of_all_its_tokens",
        ("training/step.py", "if not self.sums:", "if True:"),
        ("training/module.py", "if micro_batches > 1:", "if False:"),
    ),
    mutant(
        "loss-2",
        "padding in the loss",
        PREDICTED,
        (TRAINING_STEP, MASK, "real = targets >= 0"),
        (TRAINING_STEP, "real_positions(real, count)", "real_positions(real)"),
    ),
    mutant(
        "loss-3",
        "predicts the token that it reads",
        PREDICTED,
        (TRAINING_STEP, "model, batch.target[:, :-1]", "model, batch.target[:, 1:]"),
    ),
    mutant(
        "loss-4",
        "predicts the token after the next",
        PREDICTED,
        (TRAINING_STEP, "targets = target[:, 1:]", "targets = target[:, 1:].roll(-1, 1)"),
    ),
    mutant(
        "loss-5",
        "label smoothing counts padding",
        PREDICTED,
        (TRAINING_STEP, MASK, "real = targets >= 0"),
        (TRAINING_STEP, "real_positions(real, count)", "real_positions(real)"),
        (
            "training/losses.py",
            "labels = targets if real is None else targets.where(real, IGNORED)",
            "labels = targets.masked_fill(targets == PAD, IGNORED)",
        ),
    ),
    mutant(
        "loss-6",
        "the end token is not in the loss",
        PREDICTED,
        (TRAINING_STEP, MASK, "real = (targets != self.padding) & (targets != 2)"),
        (TRAINING_STEP, "real_positions(real, count)", "real_positions(real)"),
    ),
    mutant(
        "training-3",
        "random generators go on anyhow",
        "resume/test_resume.py::test_run_with_power_cuts_is_the_whole_run",
        ("training/trainer.py", "torch.manual_seed(high << 32 | low)", "high << 32 | low"),
    ),
    mutant(
        "training-4",
        "the optimizer begins anew",
        "resume/test_resume.py::test_run_with_power_cuts_is_the_whole_run",
        (
            STORAGE,
            "        return checkpoint\n",
            '        return {**checkpoint, "optimizer_states": []}\n',
        ),
    ),
    mutant(
        "training-8",
        "every rank resumes with the target tokens of all ranks",
        "resume/test_kills.py::test_signal_to_any_rank_stops_all_at_one_step",
        (
            "training/module.py",
            'checkpoint["target_tokens"] if rank() == 0 else 0',
            'checkpoint["target_tokens"]',
        ),
    ),
    mutant(
        "training-1",
        "the schedule goes on once an epoch, not once a step",
        "training/test_module.py::test_inverse_square_root_schedule",
        ("training/module.py", '"interval": "step"', '"interval": "epoch"'),
    ),
    mutant(
        "training-2",
        "the gradient is clipped before it is unscaled",
        "training/test_module.py::test_clipping_with_a_fused_optimizer_in_mixed_precision",
        ("training/module.py", "            scaler.unscale_(optimizer)", "            pass"),
    ),
    mutant(
        "training-5",
        "the best weights are those of the highest loss",
        "training/checkpoints/test_best_and_last.py::test_best_has_the_lowest_loss_and_last_the_last_step",
        (
            "training/checkpoints/best_and_last.py",
            '"validation/loss": "min"',
            '"validation/loss": "max"',
        ),
    ),
    mutant(
        "training-5b",
        "an equal validation replaces the best",
        "training/checkpoints/test_best_and_last.py::test_best_is_the_first_of_equal_validations",
        (
            "training/checkpoints/best_and_last.py",
            '(value < than if self.mode == "min"',
            '(value <= than if self.mode == "min"',
        ),
    ),
    mutant(
        "training-7",
        "tied weights are untied by what is loaded",
        "training/callbacks/test_averaging.py::test_tied_weights_stay_tied_in_a_resumed_run",
        (
            "training/callbacks/averaging.py",
            'saved["weights"], strict=False',
            'saved["weights"], False, True',
        ),
    ),
    mutant(
        "training-6b",
        "the gradient of a last step of fewer batches stays too small",
        "training/test_sums.py::test_a_step_is_of_all_its_tokens",
        ("training/module.py", "if micro_batches > 1:", "if False:"),
    ),
)
