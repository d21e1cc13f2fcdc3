"""Models made smaller and cheaper before they are compiled; the result is an ONNX model again."""
