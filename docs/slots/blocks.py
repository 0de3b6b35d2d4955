"""A blocks part with pages of 32 tokens, whatever the options say."""

from minfer.blocks.paged import PagedBlocks


class LargePages(PagedBlocks):
    @staticmethod
    def size_of_block(config) -> int:
        return 32
