"""Pictures with one coloured square, and what they show, in words."""
import torch

WORDS = ["<start>", "<end>", "<image>", "a", "red", "green", "blue", "square", "left", "right"]


class Scenes:
    patches = 4

    def __init__(self, size, seed):
        self.size = size
        self.generator = torch.Generator().manual_seed(seed)
        self.vocabulary = len(WORDS)
        self.image_token = WORDS.index("<image>")

    def caption(self, color, right):
        words = ["<start>", *["<image>"] * self.patches, "a", WORDS[4 + color], "square", "right" if right else "left"]
        return torch.tensor([WORDS.index(word) for word in [*words, "<end>"]])

    def batch(self, count):
        """(count, 3, size, size) pictures and (count, length) tokens."""
        pictures = 0.1 * torch.rand(count, 3, self.size, self.size, generator=self.generator)
        colors = torch.randint(0, 3, (count,), generator=self.generator).tolist()
        sides = torch.randint(0, 2, (count,), generator=self.generator).tolist()
        half, captions = self.size // 2, []
        for picture, color, right in zip(pictures, colors, sides):
            x = half * right
            picture[color, 2:6, x : x + half] += 0.8
            captions.append(self.caption(color, right))
        pictures.clamp_(0, 1).sub_(0.5)
        return pictures, torch.stack(captions)
