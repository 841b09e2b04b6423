from . import settings
from .model import *


def describe(step, loss):
    return f"step {step}: {loss.item():.4f}"
