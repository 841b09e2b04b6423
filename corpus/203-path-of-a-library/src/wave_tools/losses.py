def squared(prediction, target):
    return (prediction - target).square().mean()


def absolute(prediction, target):
    return (prediction - target).abs().mean()
