# SPDX-License-Identifier: Apache-2.0
"""Shapes of matrix products that models ask for, to compare kernels on: fixed before any kernel was tuned for them.

``out = a @ b``, with ``a`` of m × k, one row a token, and ``b`` of k × n. ``b`` is the transpose of a layer's weight,
which ``torch.nn.Linear`` keeps as n × k; so along k the elements of both lie side by side.

Source: the models' published configurations, by their names on Hugging Face: meta-llama/Llama-3.1-8B and -70B,
Qwen/Qwen2.5-7B, deepseek-ai/DeepSeek-V3, openai-community/gpt2, google-bert/bert-large-uncased,
openai/whisper-large-v3. Squares and long sums are of no model: they are what benchmarks like to show, and what they
like to leave out.

Run it with ``python model_shapes.py``.
"""

from typing import NamedTuple


class Shape(NamedTuple):
    """``a`` of m × k times ``b`` of k × n."""

    m: int
    n: int
    k: int
    layer: str  # what asks for it

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def elements(self) -> int:
        """The elements of ``a``, ``b`` and the result together."""
        return self.m * self.k + self.k * self.n + self.m * self.n


# --8<-- [start:shapes]
SHAPES = {
    "decode": [  # a token for each of m sequences, and the whole weight read for them
        Shape(1, 6144, 4096, "Llama 8B, queries, keys and values"),
        Shape(1, 4096, 4096, "Llama 8B, output of attention"),
        Shape(1, 28672, 4096, "Llama 8B, gate and up"),
        Shape(1, 4096, 14336, "Llama 8B, down"),
        Shape(1, 128256, 4096, "Llama 8B, vocabulary"),
        Shape(2, 4608, 3584, "Qwen 7B, queries, keys and values"),
        Shape(4, 3584, 18944, "Qwen 7B, down"),
        Shape(8, 6144, 4096, "Llama 8B, queries, keys and values"),
        Shape(8, 28672, 4096, "Llama 8B, gate and up"),
        Shape(16, 4096, 4096, "Llama 8B, output of attention"),
        Shape(16, 4096, 14336, "Llama 8B, down"),
        Shape(16, 1280, 8192, "Llama 70B on 8 GPUs, queries, keys and values"),
        Shape(32, 8192, 3584, "Llama 70B on 8 GPUs, down"),
        Shape(64, 4096, 4096, "Llama 8B, output of attention"),
        Shape(64, 28672, 4096, "Llama 8B, gate and up"),
        Shape(128, 4096, 14336, "Llama 8B, down"),
        Shape(128, 7168, 2048, "DeepSeek V3, down of an expert"),
    ],
    "prefill": [  # a prompt's tokens, or a batch in training
        Shape(512, 6144, 4096, "Llama 8B, queries, keys and values"),
        Shape(1024, 4096, 4096, "Llama 8B, output of attention"),
        Shape(2048, 28672, 4096, "Llama 8B, gate and up"),
        Shape(4096, 4096, 14336, "Llama 8B, down"),
        Shape(8192, 10240, 8192, "Llama 70B, queries, keys and values"),
        Shape(2048, 8192, 1024, "Llama 70B on 8 GPUs, output of attention"),
        Shape(4096, 1536, 7168, "DeepSeek V3, queries made small"),
        Shape(4096, 576, 7168, "DeepSeek V3, keys and values made small"),
        Shape(8192, 3072, 768, "GPT-2, up"),
        Shape(8192, 768, 3072, "GPT-2, down"),
        Shape(16384, 1024, 1024, "BERT large, output of attention"),
    ],
    "ragged": [  # as many rows as there happen to be
        Shape(1500, 5120, 1280, "Whisper, up"),
        Shape(1500, 1280, 5120, "Whisper, down"),
        Shape(300, 7168, 2048, "DeepSeek V3, down of an expert"),
        Shape(777, 4096, 4096, "Llama 8B, output of attention"),
        Shape(3001, 3584, 3584, "Qwen 7B, output of attention"),
        Shape(1024, 50257, 768, "GPT-2, vocabulary"),
    ],
    "long": [  # few results, each a long sum, as in the gradient of a weight
        Shape(128, 128, 65536, "no model"),
        Shape(512, 512, 16384, "no model"),
        Shape(1024, 1024, 32768, "BERT large, gradient of the weight"),
        Shape(768, 3072, 8192, "GPT-2, gradient of the weight"),
    ],
    "square": [
        Shape(512, 512, 512, "no model"),
        Shape(1000, 1000, 1000, "no model"),
        Shape(1024, 1024, 1024, "no model"),
        Shape(1536, 1536, 1536, "no model"),
        Shape(2048, 2048, 2048, "no model"),
        Shape(3072, 3072, 3072, "no model"),
        Shape(4096, 4096, 4096, "no model"),
        Shape(5000, 5000, 5000, "no model"),
        Shape(8192, 8192, 8192, "no model"),
    ],
}
# --8<-- [end:shapes]


def main():
    for kind, shapes in SHAPES.items():
        print(f"{kind} shapes: {len(shapes)}")
    every = [shape for shapes in SHAPES.values() for shape in shapes]
    print(f"shapes: {len(every)}")
    few = min(every, key=lambda shape: shape.flops / shape.elements)
    many = max(every, key=lambda shape: shape.flops / shape.elements)
    print(f"least arithmetic: {few.flops / few.elements:.1f} operations an element ({few.m} x {few.n} x {few.k})")
    print(f"most arithmetic: {many.flops / many.elements:.1f} operations an element ({many.m} x {many.n} x {many.k})")


if __name__ == "__main__":
    main()
