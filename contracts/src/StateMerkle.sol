// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The tree of many states under one root
/// @notice RFC 9162's tree over states in the order the submitter chose, hashed with keccak256:
/// `leaf = keccak256(LEAF_TAG ‖ projectId ‖ version as 32 bytes ‖ stateHash)` (128 bytes),
/// `node = keccak256(NODE_TAG ‖ left ‖ right)` (96 bytes).
/// @dev Tags and lengths differ, so no node can be passed off as a leaf. `n` leaves are split at the largest
/// power of two smaller than `n`; no leaf is duplicated.
library StateMerkle {
    /// @dev First 32 bytes of every leaf's preimage.
    bytes32 internal constant LEAF_TAG = keccak256("CM_ANCHOR_LEAF_V1");
    /// @dev First 32 bytes of every inner node's preimage.
    bytes32 internal constant NODE_TAG = keccak256("CM_ANCHOR_NODE_V1");

    /// @notice The leaf of one state.
    /// @param projectId The project, as protocol §2.
    /// @param version The state's version.
    /// @param stateHash The state's hash, as protocol §7.
    /// @return The leaf's hash.
    function leaf(bytes32 projectId, uint64 version, bytes32 stateHash) internal pure returns (bytes32) {
        return keccak256(abi.encode(LEAF_TAG, projectId, version, stateHash));
    }

    /// @notice The root that a leaf at a place in a tree leads to, as RFC 9162 §2.1.3.2.
    /// @param node The leaf's hash.
    /// @param index The leaf's place, from 0.
    /// @param size The number of leaves.
    /// @param path Sibling hashes from the leaf up.
    /// @return The root, or zero where index, size and the path's length don't fit each other.
    function rootFrom(bytes32 node, uint256 index, uint256 size, bytes32[] calldata path)
        internal
        pure
        returns (bytes32)
    {
        if (index >= size) return bytes32(0);
        uint256 last = size - 1;
        for (uint256 i = 0; i < path.length; ++i) {
            if (last == 0) return bytes32(0);
            if (index & 1 == 1 || index == last) {
                node = keccak256(abi.encode(NODE_TAG, path[i], node));
                while (index & 1 == 0 && index != 0) {
                    index >>= 1;
                    last >>= 1;
                }
            } else {
                node = keccak256(abi.encode(NODE_TAG, node, path[i]));
            }
            index >>= 1;
            last >>= 1;
        }
        return last == 0 ? node : bytes32(0);
    }
}
