"""The page on a port."""

from __future__ import annotations

from typing import Any

from tvm_fusionx._tvm.presence import missing_package
from tvm_fusionx.apps.demo.pictures import MOST_BYTES
from tvm_fusionx.apps.demo.server import MOST_CONNECTIONS, THREADS
from tvm_fusionx.errors import InputError

# Seconds after which a silent connection is closed; a stream is never silent so long.
SILENT_SECONDS = 60


def bound(app: Any, host: str, port: int) -> Any:
    """Return a server that listens; its ``run`` serves until Ctrl-C.

    Raises
    ------
    InputError
        The address or the port cannot be had.
    MissingDependencyError
        The package ``waitress`` is not installed.
    """
    try:
        import waitress
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    try:
        return waitress.create_server(
            app,
            host=host,
            port=port,
            threads=THREADS,
            connection_limit=MOST_CONNECTIONS,
            channel_timeout=SILENT_SECONDS,
            max_request_body_size=MOST_BYTES,
            # It notices who went away while their answer is on its way.
            channel_request_lookahead=1,
            ident=None,
        )
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"address {host}, port {port}",
            expected="one that is free and this machine's",
            found=str(error),
            next_step="Give another --host, another --port, or port 0 for any.",
        ) from error
