"""What an inference executes on an Arm core, counted under emulation, and what it would take there.

Counts are exact and repeatable, so they tell which of two kernels is better where no phone is at
hand; ``docs/arm.md`` says where they may deceive.
"""
