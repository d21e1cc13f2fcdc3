"""The arena over time as SVG: what lies where, from which kernel to which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

from tvm_fusionx.build.memory import ModelMemory, size_text
from tvm_fusionx.memory.lifetimes import Tenant

# Points of the drawing.
WIDTH, HEIGHT, MARGIN, LINE = 1000, 480, 60, 16
# Wong's colours, which differ to every eye (Nature Methods 8, 441).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
WORKSPACE = "#999999"
GRID_LINES = 4


def arena_picture(memory: ModelMemory, title: str) -> str:
    """Return an SVG: kernels from left to right, bytes of the arena from the bottom up.

    Each box is a tensor or a workspace (grey); pointing at it shows its name, place and life. A
    black line marks the bytes that are needed at each kernel, a red one the arena's end. What lies
    in memory of outputs is not there.
    """
    plan = memory.plan
    steps, arena = max(1, len(plan.order)), max(1, plan.arena_bytes)

    def across(step: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * step / steps

    def up(size: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * size / arena

    head = f"{title}: arena {size_text(plan.arena_bytes)}, peak at {plan.peak_call or 'no kernel'}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="{MARGIN / 2:g}">{escape(head)}</text>',
    ]
    for line in range(GRID_LINES + 1):
        size = arena * line / GRID_LINES
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{up(size):g}" y2="{up(size):g}" '
            'stroke="#dddddd"/>'
            f'<text x="{MARGIN - 4}" y="{up(size) + 4:g}" text-anchor="end">{_short(size)}</text>'
        )
    for number, (tenant, offset) in enumerate(zip(plan.tenants, plan.offsets, strict=True)):
        if plan.homes[number] is not None:
            continue
        top, left = up(offset + tenant.bytes), across(tenant.first)
        colour = WORKSPACE if tenant.buffer is None else COLOURS[number % len(COLOURS)]
        parts.append(
            f'<rect x="{left:g}" y="{top:g}" width="{across(tenant.last + 1) - left:g}" '
            f'height="{up(offset) - top:g}" fill="{colour}" fill-opacity="0.75" stroke="white" '
            f'stroke-width="0.5"><title>{escape(_about(tenant, offset))}</title></rect>'
        )
    parts.append(_steps(plan.live, across, up))
    parts.append(
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{up(arena):g}" y2="{up(arena):g}" '
        'stroke="red"/>'
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - MARGIN + 2 * LINE:g}" text-anchor="middle">'
        f"{len(plan.order)} kernels, in the order in which they run</text></svg>"
    )
    return "\n".join(parts) + "\n"


def _steps(
    live: Sequence[int], across: Callable[[float], float], up: Callable[[float], float]
) -> str:
    points = [
        f"{across(place):g},{up(size):g}"
        for step, size in enumerate(live)
        for place in (step, step + 1)
    ]
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="black"/>'


def _about(tenant: Tenant, offset: int) -> str:
    life = f"kernels {tenant.first} to {tenant.last}"
    return f"{tenant.name}: {size_text(tenant.bytes)} at {offset}, {life}"


def _short(size: float) -> str:
    return size_text(int(size)).partition(" (")[0]
