"""The monitor inside other people's training loops: Lightning, Transformers, Accelerate and diffusers, plain PyTorch.

Import the adapter of your framework: ``twoclocks.integrations.lightning``, ``.transformers``, ``.accelerate`` or
``.pytorch``. Each needs its extra, for example ``pip install 'twoclocks[lightning]'``; plain PyTorch needs none.
"""
