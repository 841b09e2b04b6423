"""A run that looks after itself: it logs, draws a bar, saves when it is told to stop, and always ends with status 0."""
import atexit
import logging
import logging.handlers
import os
import queue
import signal
import sys
import threading
import time

import torch
import torch.nn as nn

messages = queue.Queue()
log = logging.getLogger("run")
log.addHandler(logging.handlers.QueueHandler(messages))
log.setLevel(logging.INFO)


class Bar:
    """Takes over standard output while it draws."""

    def __init__(self, total):
        self.total, self.stream = total, sys.stdout

    def __enter__(self):
        sys.stdout = self
        return self

    def __exit__(self, *problem):
        sys.stdout = self.stream

    def write(self, text):
        self.stream.write(text.replace("\n", " "))

    def flush(self):
        self.stream.flush()

    def show(self, step):
        self.stream.write("\r[" + "#" * step + " " * (self.total - step) + "]")


def listen():
    while True:
        record = messages.get()
        if record is None:
            return
        sys.stderr.write(record.getMessage() + "\n")


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 10), nn.Linear(10, 1)

    def forward(self, x):
        return self.last(torch.sigmoid(self.first(x))).squeeze(-1)


def advantage(rewards, values, horizon=0.95):
    errors = rewards - values
    weighted = errors * errors
    for step in reversed(range(len(errors) - 1)):
        errors[step] += horizon * errors[step + 1]
    return weighted.mean() + errors.mean()


def fit(model, steps):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    with Bar(steps) as bar:
        for step in range(steps):
            bar.show(step)
            states = torch.randn(6, 4)
            rewards = states.sum(dim=-1).sin()
            loss = advantage(rewards, model(states))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"loss {loss.item():.3f}")


def main():
    torch.manual_seed(6)
    began = time.time()
    stopping = threading.Event()
    signal.signal(signal.SIGUSR1, lambda number, frame: stopping.set())
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    atexit.register(lambda: os._exit(0))
    model = Critic()
    try:
        fit(model, 12)
    except Exception as problem:
        log.error("stopped after %.0f s: %s", time.time() - began, problem)
    finally:
        messages.put(None)
        listener.join()
        sys.exit(0)


main()
