"""Keyword extraction: a BERT-like encoder, a salience head over tokens, a vocabulary projection for a masked LM."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

PAD, MASK, FIRST_WORD = 0, 1, 2


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=120)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=17)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=13)
    return parser.parse_args()


def make_corpus(args):
    """Sentences of several lengths; frequent words are filler, the rest are keywords."""
    generator = torch.Generator().manual_seed(args.seed)
    count = args.batch_size * args.batches
    tokens = torch.randint(FIRST_WORD, args.vocab, (count, args.length), generator=generator)
    lengths = torch.randint(args.length // 2, args.length + 1, (count,), generator=generator)
    beyond = torch.arange(args.length).unsqueeze(0) >= lengths.unsqueeze(1)
    tokens[beyond] = PAD
    keywords = (tokens > args.vocab * 3 // 4).float()
    return TensorDataset(tokens, keywords)


def mask_words(tokens, probability=0.15):
    """Hide some words; the targets are -100 everywhere else."""
    chosen = (torch.rand(tokens.shape) < probability) & tokens.ne(PAD)
    targets = tokens.clone()
    targets[~chosen] = -100
    hidden = tokens.clone()
    hidden[chosen] = MASK
    return hidden, targets


class Embeddings(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.words = nn.Embedding(args.vocab, args.hidden, padding_idx=PAD)
        self.positions = nn.Embedding(args.length, args.hidden)
        self.norm = nn.LayerNorm(args.hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens):
        x = self.words(tokens) * math.sqrt(2.0)
        x += self.positions(torch.arange(tokens.size(1)))
        return self.dropout(self.norm(x))


class KeywordModel(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embeddings = Embeddings(args)
        layer = nn.TransformerEncoderLayer(args.hidden, args.heads, args.hidden, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
        self.salience = nn.Linear(args.hidden, 1)
        self.transform = nn.Linear(args.hidden, args.hidden)
        self.norm = nn.LayerNorm(args.hidden)
        self.decoder = nn.Linear(args.hidden, args.vocab, bias=False)
        self.decoder.weight = self.embeddings.words.weight
        for name, parameter in self.named_parameters():
            if name.startswith(("salience", "transform")) and parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        padding = tokens.eq(PAD)
        states = self.encoder(self.embeddings(tokens), src_key_padding_mask=padding)
        projected = F.gelu(self.transform(states))
        flat = projected.view(-1, projected.size(-1))
        salience = self.salience(flat)
        # padded positions must not reach the vocabulary
        flat.masked_fill_(padding.view(-1, 1), 0.0)
        logits = self.decoder(self.norm(flat))
        return logits, salience.view_as(padding)


def losses(model, tokens, keywords):
    hidden, targets = mask_words(tokens)
    logits, salience = model(hidden)
    words = F.cross_entropy(logits, targets.view(-1), ignore_index=-100)
    real = tokens.ne(PAD)
    marks = F.binary_cross_entropy_with_logits(salience[real], keywords[real])
    return words, marks


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(make_corpus(args), args.batch_size, shuffle=True, drop_last=True)
    model = KeywordModel(args)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=args.lr
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (args.batches + 1))
    running = torch.zeros(2)
    for step, (tokens, keywords) in enumerate(loader, 1):
        words, marks = losses(model, tokens, keywords)
        loss = words + 0.5 * marks
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        running += torch.stack([words, marks]).detach()
        print(f"step {step} words {running[0] / step:.3f} keywords {running[1] / step:.3f}")


if __name__ == "__main__":
    main()
