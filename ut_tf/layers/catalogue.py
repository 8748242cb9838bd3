"""The transition functions and the position encodings, by name."""

from ut_tf.registry import Entry

_TRANSITION = "ut_tf.layers.transition"
_POSITIONS = "ut_tf.layers.position_encodings"

TRANSITIONS = {
    "fc": Entry(f"{_TRANSITION}:Transition", "two affine maps with a ReLU between"),
    "sepconv": Entry(
        f"{_TRANSITION}:SeparableConvTransition",
        "two separable convolutions with a ReLU between; causal in the decoder",
        attributes={"sees_neighbours": True},
    ),
    "sepconv2d": Entry(
        "ut_tf.layers.board_conv:BoardConvTransition",
        "two separable convolutions over the 3 x 3 cells around each cell of a square board",
        attributes={"sees_neighbours": True, "needs_board": True},
    ),
    "swiglu": Entry("ut_tf.layers.swiglu:SwiGLU", "a gated map (TRM, HRM, Huginn), no biases"),
}

POSITIONS = {
    "paper": Entry(f"{_POSITIONS}:PaperPositions", "interleaved sinusoids, from 1"),
    "tensor2tensor": Entry(f"{_POSITIONS}:Tensor2TensorPositions", "sines before cosines, from 0"),
    "learned": Entry(f"{_POSITIONS}:LearnedPositions", "an embedding of each position"),
    "rotary": Entry(f"{_POSITIONS}:RotaryPositions", "queries and keys are turned"),
    "none": Entry(f"{_POSITIONS}:PositionEncoding", "positions are not encoded"),
}
