"""``python -m tvm_fusionx``: the command line without its console script."""

from tvm_fusionx.cli import main

if __name__ == "__main__":
    main()
