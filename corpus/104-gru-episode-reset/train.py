"""Recurrent advantage actor-critic on a corridor where the signal at the start says which end has the prize."""
import argparse

import torch
from torch import nn
from torch.distributions import Categorical


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--envs", type=int, default=8)
    p.add_argument("--rollout", type=int, default=12)
    p.add_argument("--updates", type=int, default=4)
    p.add_argument("--hidden", type=int, default=24)
    p.add_argument("--corridor", type=int, default=5)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--entropy", type=float, default=0.01)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=17)
    return p.parse_args()


class CorridorEnvs:
    """A batch of corridors. Observation: position, signal (shown in the first step only), time used."""

    def __init__(self, n, length, generator):
        self.n, self.length, self.generator = n, length, generator
        self.position = torch.zeros(n)
        self.goal = torch.zeros(n)
        self.time = torch.zeros(n)
        self.restart(torch.ones(n, dtype=torch.bool))

    def restart(self, which):
        count = int(which.sum())
        self.position[which] = 0.0
        self.time[which] = 0.0
        self.goal[which] = torch.randint(0, 2, (count,), generator=self.generator).float() * 2 - 1

    def observe(self):
        signal = self.goal * (self.time == 0)
        return torch.stack([self.position / self.length, signal, self.time / (4 * self.length)], dim=1)

    def step(self, action):
        self.position += action.float() * 2 - 1
        self.time += 1
        at_end = self.position.abs() >= self.length
        reward = torch.where(at_end, (self.position.sign() == self.goal).float() * 2 - 1, torch.tensor(-0.01))
        done = at_end | (self.time >= 4 * self.length)
        self.restart(done)
        return self.observe(), reward, done


class RecurrentPolicy(nn.Module):
    def __init__(self, observations, actions, hidden):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh())
        self.cell = nn.GRUCell(hidden, hidden)
        self.actor = nn.Linear(hidden, actions)
        self.critic = nn.Linear(hidden, 1)
        nn.init.zeros_(self.actor.bias)

    def forward(self, observation, state):
        state = self.cell(self.encode(observation), state)
        return Categorical(logits=self.actor(state)), self.critic(state).squeeze(1), state


class Rollout:
    def __init__(self):
        self.log_probs, self.values, self.rewards, self.dones, self.entropies = [], [], [], [], []

    def add(self, log_prob, value, reward, done, entropy):
        self.log_probs.append(log_prob)
        self.values.append(value)
        self.rewards.append(reward)
        self.dones.append(done)
        self.entropies.append(entropy)

    def returns(self, bootstrap, gamma):
        out, running = [], bootstrap
        for reward, done in zip(reversed(self.rewards), reversed(self.dones)):
            running = reward + gamma * running * (~done)
            out.append(running)
        return torch.stack(out[::-1])


def collect(envs, policy, observation, state, length):
    rollout = Rollout()
    for _ in range(length):
        dist, value, state = policy(observation, state)
        action = dist.sample()
        observation, reward, done = envs.step(action)
        rollout.add(dist.log_prob(action), value, reward, done, dist.entropy())
        # a new episode starts without memories
        state[done] = 0.0
    return rollout, observation, state


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    envs = CorridorEnvs(args.envs, args.corridor, torch.Generator().manual_seed(args.seed))
    policy = RecurrentPolicy(3, 2, args.hidden)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=args.lr, alpha=0.95)

    observation = envs.observe()
    state = torch.zeros(args.envs, args.hidden)
    score = torch.zeros(())
    for update in range(args.updates):
        rollout, observation, state = collect(envs, policy, observation, state.detach(), args.rollout)
        with torch.no_grad():
            bootstrap = policy(observation, state)[1]
        targets = rollout.returns(bootstrap, args.gamma)
        values = torch.stack(rollout.values)
        advantage = (targets - values).detach()
        policy_loss = -(torch.stack(rollout.log_probs) * advantage).mean()
        value_loss = (targets - values).pow(2).mean()
        loss = policy_loss + 0.5 * value_loss - args.entropy * torch.stack(rollout.entropies).mean()

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        score.mul_(0.9).add_(torch.stack(rollout.rewards).sum(0).mean(), alpha=0.1)
        print(f"update {update} loss {loss.item():.3f} value {value_loss.item():.3f} score {score.item():.3f}")


if __name__ == "__main__":
    main()
