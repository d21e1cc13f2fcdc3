"""Where files lie that can be fetched or made again: libraries built here, TVM's runtimes."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

APPLICATION = "tvm_fusionx"
# Overrides the folder that the operating system has for such files.
FOLDER_VARIABLE = "TVM_FUSIONX_CACHE"


def cache_folder() -> Path:
    """Return the folder for files that can be fetched or made again; it need not exist."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir(APPLICATION, False))
