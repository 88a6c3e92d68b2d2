import torch
from torch import nn

LENGTH = 16


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1))

    def forward(self, x):
        _, length, width = x.shape
        q, k, v = self.qkv(x).view(1, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        weights = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        weights = (weights + self.mask).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(1, length, width))


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, words=100, width=64, layers=2):
        super().__init__()
        self.embedding, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make():
    torch.manual_seed(0)
    return GPT(), (torch.randint(0, 100, (1, LENGTH)),)
