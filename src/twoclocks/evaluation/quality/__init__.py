"""Quality of images in a feature space. Metrics are in ``quality.metrics``, which imports the rest of evaluation."""

from twoclocks.evaluation.quality.autoencoder import AutoencoderSpace
from twoclocks.evaluation.quality.distances import frechet_distance, kernel_distance
from twoclocks.evaluation.quality.feature_files import FeatureFile, load_features, save_features
from twoclocks.evaluation.quality.features import FEATURES, Features, FeatureSpace, NetworkFeatures, PixelSpace
from twoclocks.evaluation.quality.manifolds import authenticity, density_coverage, precision_recall

__all__ = [
    "FEATURES",
    "AutoencoderSpace",
    "FeatureFile",
    "FeatureSpace",
    "Features",
    "NetworkFeatures",
    "PixelSpace",
    "authenticity",
    "density_coverage",
    "frechet_distance",
    "kernel_distance",
    "load_features",
    "precision_recall",
    "save_features",
]
