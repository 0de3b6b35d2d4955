"""Never comes to an end, from the first line on."""

while True:
    pass


def silu_mul(gate_up):
    return gate_up
