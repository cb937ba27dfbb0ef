"""Train a Marian Transformer from scratch with Hugging Face's Seq2SeqTrainer."""

from __future__ import annotations

import torch
from recorder import Recorder, lines, settings
from torch import Tensor
from torch.utils.data import Dataset
from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

GIVEN = settings()
END = GIVEN["vocabulary"]
PAD = GIVEN["vocabulary"] + 1
IGNORED = -100


class Pairs(Dataset[dict[str, list[int]]]):
    """Sources and targets with their ends."""

    def __init__(self) -> None:
        self.sources, self.targets = (
            lines(f"{GIVEN['text']}/train.{side}") for side in ("source", "target")
        )

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, row: int) -> dict[str, list[int]]:
        return {"input_ids": [*self.sources[row], END], "labels": [*self.targets[row], END]}


def collate(examples: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    """Collate examples; with label smoothing the trainer needs the decoder's inputs too."""
    sources = padded([example["input_ids"] for example in examples], PAD)
    begun = padded([[PAD, *example["labels"][:-1]] for example in examples], PAD)
    labels = padded([example["labels"] for example in examples], IGNORED)
    return {
        "input_ids": sources,
        "attention_mask": sources != PAD,
        "decoder_input_ids": begun,
        "labels": labels,
    }


def padded(rows: list[list[int]], filler: int) -> Tensor:
    """Pad rows to one length."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


def read(input_ids: Tensor, decoder_input_ids: Tensor, **_: object) -> tuple[Tensor, Tensor]:
    """Return masks of real tokens; the decoder's first input equals padding."""
    target = decoder_input_ids != PAD
    target[:, 0] = True
    return input_ids != PAD, target


def main() -> None:
    """Train."""
    recorder = Recorder(GIVEN)
    recorder.watch(MarianMTModel, read)
    sizes = {"layers": GIVEN["layers"], "attention_heads": 4, "ffn_dim": 1024}
    sides = {
        f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()
    }
    configuration = MarianConfig(
        vocab_size=GIVEN["vocabulary"] + 2,
        d_model=256,
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.1,
        max_position_embeddings=4096,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        forced_eos_token_id=END,
        **sides,
    )
    model = MarianMTModel(configuration)
    arguments = Seq2SeqTrainingArguments(
        output_dir=GIVEN["work"],
        per_device_train_batch_size=GIVEN["rows"],
        train_sampling_strategy="group_by_length",
        max_steps=10**6,
        learning_rate=1e-3,
        weight_decay=0.01,
        max_grad_norm=1.0,
        label_smoothing_factor=0.1,
        optim="adamw_torch_fused",
        bf16=GIVEN["precision"] == "bf16-mixed",
        use_cpu=GIVEN["device"] == "cpu",
        save_strategy="no",
        report_to=[],
        logging_steps=100,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=1,
    )
    Seq2SeqTrainer(
        model=model, args=arguments, train_dataset=Pairs(), data_collator=collate
    ).train()


if __name__ == "__main__":
    main()
