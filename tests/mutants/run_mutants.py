"""Mistakes in checkpoints, run folders, pages and trackers."""

from mutant import mutant

STORAGE = "training/checkpoints/checkpoint_io.py"
HASHES = "training/checkpoints/manifest.py"
EVALUATION = "runs/evaluation/evaluated.py"

MUTANTS = (
    mutant(
        "infra-1",
        "a checkpoint is written in its place",
        "training/checkpoints/test_checkpoint_io.py::test_files_are_synced_before_they_are_renamed",
        (HASHES, "rename(new, path)", "path.write_bytes(new.read_bytes())"),
    ),
    mutant(
        "infra-2",
        "a checkpoint is not synced",
        "training/checkpoints/test_checkpoint_io.py::test_files_are_synced_before_they_are_renamed",
        (HASHES, "        sync(new)\n", ""),
    ),
    mutant(
        "infra-3",
        "hashes are not compared",
        "training/checkpoints/test_checkpoint_io.py::test_damaged_file_is_rejected",
        (HASHES, "sha256(path) in _listed(hashes, path.name)", "hashes"),
    ),
    mutant(
        "infra-3b",
        "changed weights are loaded",
        "runs/test_verify.py::test_bit_flips_are_detected",
        ("runs/load.py", "    check_intact(folder / WEIGHTS, weights_remedy(folder))\n", ""),
    ),
    mutant(
        "infra-3c",
        "an old metrics.json is kept beside new responses",
        "runs/test_evaluation_files.py::test_a_kill_leaves_no_mixture_of_two_evaluations",
        (EVALUATION, "for name in (METRICS, MANIFEST):", "for name in (MANIFEST,):"),
    ),
    mutant(
        "infra-3d",
        "an old manifest is kept beside new responses",
        "runs/test_evaluation_files.py::test_a_failed_evaluation_leaves_no_old_metrics",
        (EVALUATION, "for name in (METRICS, MANIFEST):", "for name in (METRICS,):"),
    ),
    mutant(
        "infra-3e",
        "a changed evaluation is used",
        "runs/test_evaluation_files.py::test_changed_files_of_an_evaluation_are_errors",
        (
            "runs/evaluation/evaluated.py",
            "if not check_evaluation(metrics_file.parent):",
            "if not True:",
        ),
    ),
    mutant(
        "infra-3f",
        "a report shows the figures of metrics.json",
        "comparison/test_results.py::test_shown_values_are_those_of_the_statistics",
        (
            "comparison/results/systems.py",
            "    for name, value in values.items():\n        before = metrics.get(name)\n",
            (
                "    return dict(metrics)\n    for name, value in values.items():\n        before ="
                " metrics.get(name)\n"
            ),
        ),
    ),
    mutant(
        "infra-4",
        "a checkpoint may run code",
        "training/checkpoints/test_checkpoint_io.py::test_only_plain_types_and_tensors_are_loaded",
        (STORAGE, "weights_only=True)", "weights_only=False)"),
    ),
    mutant(
        "infra-4b",
        "a damaged checkpoint is listed as intact when a run is resumed",
        "training/checkpoints/test_checkpoint_io.py::test_damaged_file_stays_damaged_after_clean_up",
        (
            STORAGE,
            ' for path in sorted(folder.glob("*.ckpt")) if storage.damage(path) is None]',
            ' for path in sorted(folder.glob("*.ckpt"))]',
        ),
    ),
    mutant(
        "infra-5",
        "text is put into a page as it is",
        "inspection/test_output.py::test_hostile_text_is_escaped",
        ("report/page.py", "autoescape=True", "autoescape=False"),
    ),
    mutant(
        "infra-7",
        "the command line and what is printed go to Weights & Biases",
        "training/test_wandb.py::test_no_secret_is_written",
        ("training/loggers/wandb_tracker.py", '"x_disable_meta": True', '"x_disable_meta": False'),
    ),
    mutant(
        "infra-8",
        "a better mean is bold although the difference is undecided",
        "report/sections/test_scores.py::test_bold_means_decided",
        (
            "report/sections/differences.py",
            "if entry.decided and best is not None",
            "if best is not None",
        ),
    ),
    mutant(
        "infra-9",
        "blind ratings are counted by side, not by contender",
        "comparison/preference/test_study.py::test_ratings_are_decoded_to_contenders",
        (
            "comparison/preference/rating_files.py",
            'self.key["first"] == self.key["pair"][0]',
            "True",
        ),
    ),
)
