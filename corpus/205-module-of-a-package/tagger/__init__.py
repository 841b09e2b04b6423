"""A tagger of words: a GRU, scores for each tag, a loss over paths."""
from .layers import *
from .model import Tagger

__version__ = "0.3"
