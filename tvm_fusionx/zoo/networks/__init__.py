"""Published architectures as torch modules, one family a file, layer by layer; weights undrawn.

Each file defines torch modules and imports torch at its top: import it once torch is known to be
there, as the catalogue does.
"""
