"""Usage statistics and error reports that optional packages send by default: off, unless the user has set them."""

from __future__ import annotations

import os

# Environment variable: value, package. Each package reads its own when it is imported or started.
TELEMETRY: dict[str, tuple[str, str]] = {
    "RAY_USAGE_STATS_ENABLED": ("0", "Ray"),
    "WANDB_ERROR_REPORTING": ("false", "Weights & Biases"),
    "MLFLOW_DISABLE_TELEMETRY": ("true", "MLflow"),
    "HF_HUB_DISABLE_TELEMETRY": ("1", "Transformers, diffusers, huggingface_hub, trackio"),
    "GRADIO_ANALYTICS_ENABLED": ("False", "trackio, through gradio_client"),
}


def telemetry_off() -> None:
    """Switch the telemetry of all optional packages off; call it before one of them is imported."""
    for name, (value, _) in TELEMETRY.items():
        os.environ.setdefault(name, value)
