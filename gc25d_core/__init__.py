"""gc25d_core: game recordings in, training inputs for a video world model out.

A pure library. It knows no orchestrator, reads no environment, and imports torch, cv2 and diffsynth only where they
are used. Every path, size and policy arrives as an argument or inside one frozen `Settings` object.
"""

__version__ = "0.1.0"
