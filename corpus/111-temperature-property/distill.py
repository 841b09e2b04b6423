"""Knowledge distillation; the student's softmax temperature is a property that a schedule sets during training."""
import argparse
import json
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class LinearSchedule:
    """From `start` to `end` in `steps` steps, then constant."""

    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, max(1, steps)

    def __call__(self, step):
        share = min(1.0, step / self.steps)
        return self.start + (self.end - self.start) * share


class Classifier(nn.Module):
    def __init__(self, inputs, hidden, classes, depth=1):
        super().__init__()
        layers, width = [], inputs
        for _ in range(depth):
            layers += [nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.SiLU(inplace=True)]
            width = hidden
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x))


class Student(Classifier):
    """A classifier whose soft predictions have a temperature of their own, saved with its weights."""

    def __init__(self, inputs, hidden, classes, temperature):
        super().__init__(inputs, hidden, classes)
        self.register_buffer("_temperature", torch.tensor(float(temperature)))

    @property
    def temperature(self):
        return self._temperature.item()

    @temperature.setter
    def temperature(self, value):
        if not value > 0:
            raise ValueError(f"a temperature must be positive, not {value}")
        self._temperature.fill_(value)

    def soft(self, logits):
        return F.log_softmax(logits / self._temperature, dim=-1)


class Distiller:
    def __init__(self, teacher, student, schedule, alpha):
        self.teacher, self.student = teacher.eval(), student
        self.schedule, self.alpha = schedule, alpha
        self.step = 0
        for parameter in teacher.parameters():
            parameter.requires_grad_(False)

    def __getattr__(self, name):
        # train(), parameters() and the like are the student's
        return getattr(self.__dict__["student"], name)

    def soft_loss(self, x, logits):
        targets = F.softmax(self.teacher(x) / self.student.temperature, dim=-1)
        loss = F.kl_div(self.student.soft(logits), targets, reduction="batchmean")
        self.step += 1
        self.student.temperature = self.schedule(self.step)
        return loss * self.student.temperature**2

    def loss(self, x, y):
        logits = self.student(x)
        hard = F.cross_entropy(logits, y)
        return self.alpha * self.soft_loss(x, logits) + (1 - self.alpha) * hard


def spirals(count, classes, generator):
    y = torch.randint(0, classes, (count,), generator=generator)
    radius = torch.rand(count, generator=generator)
    angle = 4 * radius + y * (2 * torch.pi / classes)
    angle += 0.1 * torch.randn(count, generator=generator)
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return x, y


def fit_teacher(teacher, x, y, steps):
    optimizer = torch.optim.Adam(teacher.parameters(), lr=0.01)
    for _ in range(steps):
        loss = F.cross_entropy(teacher(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--samples", type=int, default=150)
    parser.add_argument("--teacher-steps", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--hot", type=float, default=4.0)
    parser.add_argument("--cold", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    x, y = spirals(args.samples, args.classes, torch.Generator().manual_seed(args.seed))
    teacher = Classifier(2, 48, args.classes, depth=2)
    print(f"teacher loss {fit_teacher(teacher, x, y, args.teacher_steps):.3f}")
    student = Student(2, 12, args.classes, args.hot)
    distiller = Distiller(teacher, student, LinearSchedule(args.hot, args.cold, args.steps), args.alpha)
    optimizer = torch.optim.Adam(distiller.parameters(), lr=0.02)
    log = []
    for step in range(args.steps):
        chosen = torch.randperm(len(x))[:50]
        loss = distiller.loss(x[chosen], y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.append({"step": step, "loss": round(loss.item(), 4), "temperature": round(student.temperature, 3)})
        print(log[-1])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "log.json"), "w") as file:
            json.dump(log, file)


if __name__ == "__main__":
    main()
