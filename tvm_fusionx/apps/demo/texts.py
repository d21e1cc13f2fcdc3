"""What a page's text model does: goes on with a text, and answers questions, event by event."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tvm_fusionx.apps.answers import ask, make_room
from tvm_fusionx.apps.demo.asked import QuestionAsked, TextAsked
from tvm_fusionx.apps.demo.desk import Event, Job, Work, compiling
from tvm_fusionx.apps.generate import GenerationStats, generate
from tvm_fusionx.apps.programs import TextPrograms
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.processors.targets import TargetLike


def text_model(
    path: Path, target: TargetLike = "llvm -mcpu=native"
) -> Callable[[Callable[[str], None]], TextModel]:
    """Return what makes a desk's model of a GGUF file.

    Raises
    ------
    ModelError
        There is no such file. What is wrong inside is told when the model is made.
    """
    programs = TextPrograms(path, target)

    def make(say: Callable[[str], None]) -> TextModel:
        programs.on_stage = say
        model = TextModel(programs, growing=lambda: compiling(say))
        model.reserve(1)
        return model

    return make


def text_work(asked: TextAsked) -> Work[TextModel]:
    """Return work that tells text as it comes, with tokens so far and tokens a second."""

    def work(model: TextModel, job: Job) -> Event:
        prompt = asked.prompt
        if asked.is_chat:
            prompt = model.tokenizer.chat([{"role": "user", "content": prompt}])
        model.reserve(len(model.tokenizer.encode(prompt)) + asked.max_tokens)
        stats = GenerationStats()
        job.tell("reading")
        for piece in generate(
            model, prompt, max_tokens=asked.max_tokens, sampling=asked.sampling, stats=stats
        ):
            job.tell("text", text=piece, tokens=stats.new_tokens, rate=stats.decode_rate)
            if job.is_stopped:
                break
        return {
            "prompt_tokens": stats.prompt_tokens,
            "tokens": stats.new_tokens,
            "first_token_ms": 1e3 * stats.prompt_seconds,
            "rate": stats.decode_rate,
            "ended_by": stats.ended_by,
        }

    return work


def question_work(asked: QuestionAsked) -> Work[TextModel]:
    """Return work that ends with an answer, and where the passage has it."""

    def work(model: TextModel, job: Job) -> Event:
        make_room(model, asked.passage, asked.question)
        job.tell("reading")
        answer = ask(model, asked.passage, asked.question, lambda: job.is_stopped)
        return {
            "text": answer.text,
            # Characters as JavaScript counts them are not ours: what is before and behind is told.
            "before": asked.passage[: answer.start],
            "after": "" if answer.end is None else asked.passage[answer.end :],
            "is_found": answer.start is not None,
            "milliseconds": answer.milliseconds,
        }

    return work
