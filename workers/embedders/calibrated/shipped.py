"""The curves that were found beforehand, by the sha256 of the model's file; see `measure`."""

from collections.abc import Mapping
from typing import Final

from engramq.workers.embedders import bundle
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.e5 import files

SHIPPED: Final[Mapping[str, Calibration]] = {
    bundle.MODEL_SHA256: Calibration(15.425, -7.865),
    bundle.INT8_SHA256: Calibration(15.224, -7.726),
    files.MODEL_SHA256: Calibration(26.554, -11.703),  # e5; English, as the others
}
