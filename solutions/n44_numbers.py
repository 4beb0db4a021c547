"""Reference solutions of lab n44. For course staff: in no student package, on no page."""


def round_to(value, exponent_bits, mantissa_bits):
    """n44.1"""
    import math
    from fractions import Fraction

    bias = 2 ** (exponent_bits - 1) - 1
    if value == 0:
        return value
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    spacing = Fraction(2) ** (exponent - mantissa_bits)
    nearest = round(Fraction(value) / spacing) * spacing
    if abs(nearest) >= Fraction(2) ** (bias + 1):
        return math.copysign(math.inf, value)
    return math.copysign(float(abs(nearest)), value)


def adam_steps(master, gradients, rate, beta1, beta2, epsilon):
    """n44.2"""
    import struct

    weights32 = list(master)
    momentum = [0.0] * len(weights32)
    variance = [0.0] * len(weights32)
    for count, gradient in enumerate(gradients, start=1):
        for place, slope in enumerate(gradient):
            momentum[place] += (1 - beta1) * (slope - momentum[place])
            variance[place] += (1 - beta2) * (slope * slope - variance[place])
            steady = momentum[place] / (1 - beta1**count)
            spread = (variance[place] / (1 - beta2**count)) ** 0.5
            weights32[place] -= rate * steady / (spread + epsilon)
    working = [struct.unpack("e", struct.pack("e", weight))[0] for weight in weights32]
    return {
        "weights": working,
        "master_weights": weights32,
        "momentum": momentum,
        "variance": variance,
    }


def scaled_steps(gradients, scale, growth, backoff, interval, patience):
    """n44.3"""
    import math
    import struct

    def in_fp16(number):
        try:
            return struct.unpack("e", struct.pack("e", number))[0]
        except OverflowError:
            return math.copysign(math.inf, number)

    results = []
    good, tolerated = 0, patience
    for gradient in gradients:
        scaled = [in_fp16(slope * scale) for slope in gradient]
        if any(math.isinf(slope) for slope in scaled):
            results.append((scale, None))
            good, tolerated = 0, tolerated - 1
            if tolerated <= 0:
                scale *= backoff
            continue
        results.append((scale, [slope / scale for slope in scaled]))
        good += 1
        if good == interval:
            good, tolerated = 0, patience
            scale *= growth
    return results
