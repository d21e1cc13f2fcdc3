"""Text as it comes: incomplete characters and half stop words are held back."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Turns the bytes of tokens into text that may be shown.

    Parameters
    ----------
    stops
        Words at which the text ends; they are not part of it.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = [stop for stop in stops if stop]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.is_stopped = False
        """Whether a stop word came."""

    def feed(self, piece: bytes, *, final: bool = False) -> str:
        """Return what may be shown after some more bytes.

        Parameters
        ----------
        piece
            Bytes of UTF-8, which may end within a character.
        final
            Whether nothing follows.
        """
        if self.is_stopped:
            return ""
        self._held += self._decoder.decode(piece, final)
        ends = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.is_stopped = True
            shown, self._held = self._held[: min(ends)], ""
            return shown
        kept = 0 if final else self._begun()
        shown = self._held[: len(self._held) - kept]
        self._held = self._held[len(shown) :]
        return shown

    def _begun(self) -> int:
        """Return how many characters at the end may begin a stop word."""
        for count in range(max(map(len, self._stops), default=1) - 1, 0, -1):
            end = self._held[-count:]
            if len(end) == count and any(stop.startswith(end) for stop in self._stops):
                return count
        return 0
