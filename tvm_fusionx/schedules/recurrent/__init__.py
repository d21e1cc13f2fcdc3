"""Recurrent layers: all steps in one kernel, the state's weights in panels."""
