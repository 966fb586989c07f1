// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Outcome} from "./Outcome.sol";
import {StateMerkle} from "./StateMerkle.sol";
import {Submitters} from "./Submitters.sol";

/// @title Witness of project states and ledger heads
/// @notice Keeps which hash a version of a project's state had, and which hash a ledger's entry had, from the
/// block it was written in. What is written first stays for ever: there is no function that changes or
/// removes it, no owner who could, no upgrade, no pause, no delegatecall.
/// @dev A version costs one fresh slot, and the project's slot is rewritten. Ids of anchors come from one
/// counter that is stored once per call.
contract ProjectStateAnchor is Submitters {
    /// @notice One state.
    /// @param projectId The project, as protocol §2.
    /// @param version The state's version, from 1.
    /// @param stateHash The state's hash, as protocol §7.
    struct StateItem {
        bytes32 projectId;
        uint64 version;
        bytes32 stateHash;
    }

    /// @notice One ledger head.
    /// @param ledgerId The ledger, as protocol §2.
    /// @param seq The entry's place in the ledger, from 1.
    /// @param entryHash The entry's hash, as protocol §5.
    struct HeadItem {
        bytes32 ledgerId;
        uint64 seq;
        bytes32 entryHash;
    }

    /// @notice What is known of a project; one storage slot. All zero for a project without anchors.
    /// @param firstVersion The first version anchored here; those below it never will be.
    /// @param latestVersion The latest one; all from the first on are there.
    /// @param latestAnchorId Its anchor's id.
    /// @param latestAnchoredAt Its block's timestamp, in seconds.
    struct Project {
        uint64 firstVersion;
        uint64 latestVersion;
        uint64 latestAnchorId;
        uint64 latestAnchoredAt;
    }

    /// @notice A root that was stored, not only logged; one storage slot. All zero for any other.
    /// @param anchoredBy The submitter.
    /// @param anchoredAt The block's timestamp, in seconds.
    /// @param count How many states the submitter says the tree has.
    struct StoredRoot {
        address anchoredBy;
        uint64 anchoredAt;
        uint32 count;
    }

    /// @notice The most versions `stateHashesOf` answers at once.
    uint256 public constant MAX_PAGE = 256;

    /// @notice How many states were anchored one by one; the latest anchor's id.
    uint64 public anchorCount;

    mapping(bytes32 projectId => mapping(uint256 version => bytes32 stateHash)) private _stateHashes;
    mapping(bytes32 projectId => Project) private _projects;
    mapping(bytes32 ledgerId => mapping(uint256 seq => bytes32 entryHash)) private _entryHashes;
    mapping(bytes32 ledgerId => uint64 seq) private _latestSeq;
    mapping(bytes32 root => StoredRoot) private _roots;

    /// @notice A version's hash was written, for ever.
    /// @param anchorId Counts the contract's anchors from 1.
    /// @param projectId The project, as protocol §2.
    /// @param version The state's version.
    /// @param stateHash The state's hash, as protocol §7.
    /// @param anchoredAt The block's timestamp, in seconds.
    /// @param anchoredBy The submitter.
    event StateAnchored(
        uint64 indexed anchorId,
        bytes32 indexed projectId,
        uint64 indexed version,
        bytes32 stateHash,
        uint64 anchoredAt,
        address anchoredBy
    );

    /// @notice An element of a batch was not written.
    /// @param projectId The element's project.
    /// @param version The element's version.
    /// @param reason Why not.
    /// @param stateHash The element's hash.
    /// @param heldHash The hash the contract holds for that version, or zero.
    event StateSkipped(
        bytes32 indexed projectId,
        uint64 indexed version,
        Outcome indexed reason,
        bytes32 stateHash,
        bytes32 heldHash
    );

    /// @notice A ledger's head was written, for ever.
    /// @param ledgerId The ledger, as protocol §2.
    /// @param seq The entry's place in the ledger.
    /// @param entryHash The entry's hash, as protocol §5.
    /// @param anchoredAt The block's timestamp, in seconds.
    /// @param anchoredBy The submitter.
    event HeadAnchored(
        bytes32 indexed ledgerId,
        uint64 indexed seq,
        bytes32 indexed entryHash,
        uint64 anchoredAt,
        address anchoredBy
    );

    /// @notice A head of a batch was not written.
    /// @param ledgerId The element's ledger.
    /// @param seq The element's place.
    /// @param reason Why not.
    /// @param entryHash The element's hash.
    /// @param heldHash The hash the contract holds for that place, or zero.
    event HeadSkipped(
        bytes32 indexed ledgerId,
        uint64 indexed seq,
        Outcome indexed reason,
        bytes32 entryHash,
        bytes32 heldHash
    );

    /// @notice The root of a tree of states was put on chain.
    /// @param root The tree's root, as `StateMerkle`.
    /// @param anchoredBy The submitter.
    /// @param count How many states the submitter says the tree has.
    /// @param anchoredAt The block's timestamp, in seconds.
    event RootAnchored(bytes32 indexed root, address indexed anchoredBy, uint32 count, uint64 anchoredAt);

    /// @notice A single state can't be written.
    /// @param projectId The state's project.
    /// @param version The state's version.
    /// @param reason Why not.
    error StateRefused(bytes32 projectId, uint64 version, Outcome reason);
    /// @notice A single head can't be written.
    /// @param ledgerId The head's ledger.
    /// @param seq The head's place.
    /// @param reason Why not.
    error HeadRefused(bytes32 ledgerId, uint64 seq, Outcome reason);
    /// @notice A root needs a non-zero hash and at least one state.
    error EmptyRoot();
    /// @notice This root is stored already.
    /// @param root The root.
    error RootAlreadyStored(bytes32 root);
    /// @notice More versions asked for than one answer holds.
    /// @param count How many were asked for.
    /// @param max The most there can be.
    error PageTooLarge(uint256 count, uint256 max);

    /// @notice Deploy with an admin and, if known already, a submitter.
    /// @param admin Grants and revokes roles.
    /// @param submitter The first submitter, or the zero address for none yet.
    constructor(address admin, address submitter) Submitters(admin, submitter) {}

    // ------------------------------------------------------------------------------------------ states

    /// @notice Anchor one state, or revert with `StateRefused`.
    /// @param projectId The project.
    /// @param version One above the project's latest; any from 1 if it has none yet.
    /// @param stateHash The state's hash, not zero.
    /// @return anchorId The anchor's id.
    function anchor(bytes32 projectId, uint64 version, bytes32 stateHash)
        external
        onlyRole(SUBMITTER_ROLE)
        returns (uint64 anchorId)
    {
        anchorId = anchorCount + 1;
        (Outcome outcome,) = _writeState(projectId, version, stateHash, anchorId);
        if (outcome != Outcome.Written) revert StateRefused(projectId, version, outcome);
        anchorCount = anchorId;
    }

    /// @notice Anchor many states, in order. An element that can't be written is skipped and reported by
    /// `StateSkipped`; it never stops the others.
    /// @param items The states; those of one project in ascending order of versions.
    /// @return outcomes What became of each, in the order of `items` (for who simulates the call).
    function anchorBatch(StateItem[] calldata items)
        external
        onlyRole(SUBMITTER_ROLE)
        returns (Outcome[] memory outcomes)
    {
        outcomes = new Outcome[](items.length);
        uint64 before = anchorCount;
        uint64 count = before;
        for (uint256 i = 0; i < items.length; ++i) {
            StateItem calldata item = items[i];
            (Outcome outcome, bytes32 held) =
                _writeState(item.projectId, item.version, item.stateHash, count + 1);
            outcomes[i] = outcome;
            if (outcome == Outcome.Written) ++count;
            else emit StateSkipped(item.projectId, item.version, outcome, item.stateHash, held);
        }
        if (count != before) anchorCount = count;
    }

    /// @notice The hash anchored for a version.
    /// @param projectId The project.
    /// @param version The version.
    /// @return The hash, or zero if that version isn't anchored here.
    function stateHashOf(bytes32 projectId, uint64 version) external view returns (bytes32) {
        return _stateHashes[projectId][version];
    }

    /// @notice The hashes anchored for consecutive versions.
    /// @param projectId The project.
    /// @param fromVersion The first version.
    /// @param count How many, at most `MAX_PAGE`.
    /// @return hashes One for each version, zero where none is anchored here.
    function stateHashesOf(bytes32 projectId, uint64 fromVersion, uint256 count)
        external
        view
        returns (bytes32[] memory hashes)
    {
        if (count > MAX_PAGE) revert PageTooLarge(count, MAX_PAGE);
        hashes = new bytes32[](count);
        // A sum above 64 bits is a version nobody can anchor, so it reads zero, as it should.
        for (uint256 i = 0; i < count; ++i) hashes[i] = _stateHashes[projectId][uint256(fromVersion) + i];
    }

    /// @notice The latest anchored version of a project and its hash.
    /// @param projectId The project.
    /// @return version The latest version, 0 if there is none.
    /// @return stateHash Its hash, zero if there is none.
    function latest(bytes32 projectId) external view returns (uint64 version, bytes32 stateHash) {
        version = _projects[projectId].latestVersion;
        stateHash = _stateHashes[projectId][version];
    }

    /// @notice First and latest version of a project, and the latest one's anchor id and time.
    /// @param projectId The project.
    /// @return All zero for a project without anchors.
    function projectOf(bytes32 projectId) external view returns (Project memory) {
        return _projects[projectId];
    }

    /// @notice Whether a version was anchored with this very hash.
    /// @param projectId The project.
    /// @param version The version.
    /// @param stateHash The hash, as recomputed by whoever asks.
    /// @return True if the contract holds this hash; never true for the zero hash.
    function verify(bytes32 projectId, uint64 version, bytes32 stateHash) external view returns (bool) {
        return stateHash != bytes32(0) && _stateHashes[projectId][version] == stateHash;
    }

    // ------------------------------------------------------------------------------------ ledger heads

    /// @notice Anchor one ledger head, or revert with `HeadRefused`.
    /// @param ledgerId The ledger.
    /// @param seq The entry's place, above the ledger's latest anchored one; gaps are fine.
    /// @param entryHash The entry's hash, not zero.
    function anchorHead(bytes32 ledgerId, uint64 seq, bytes32 entryHash) external onlyRole(SUBMITTER_ROLE) {
        (Outcome outcome,) = _writeHead(ledgerId, seq, entryHash);
        if (outcome != Outcome.Written) revert HeadRefused(ledgerId, seq, outcome);
    }

    /// @notice Anchor many ledger heads, in order. One that can't be written is skipped and reported by
    /// `HeadSkipped`; it never stops the others.
    /// @param items The heads; those of one ledger in ascending order.
    /// @return outcomes What became of each, in the order of `items`.
    function anchorHeads(HeadItem[] calldata items)
        external
        onlyRole(SUBMITTER_ROLE)
        returns (Outcome[] memory outcomes)
    {
        outcomes = new Outcome[](items.length);
        for (uint256 i = 0; i < items.length; ++i) {
            HeadItem calldata item = items[i];
            (Outcome outcome, bytes32 held) = _writeHead(item.ledgerId, item.seq, item.entryHash);
            outcomes[i] = outcome;
            if (outcome != Outcome.Written) {
                emit HeadSkipped(item.ledgerId, item.seq, outcome, item.entryHash, held);
            }
        }
    }

    /// @notice The hash anchored for a place in a ledger.
    /// @param ledgerId The ledger.
    /// @param seq The entry's place.
    /// @return The hash, or zero if that entry was never anchored as a head.
    function headOf(bytes32 ledgerId, uint64 seq) external view returns (bytes32) {
        return _entryHashes[ledgerId][seq];
    }

    /// @notice The latest anchored head of a ledger.
    /// @param ledgerId The ledger.
    /// @return seq Its place, 0 if there is none.
    /// @return entryHash Its hash, zero if there is none.
    function latestHead(bytes32 ledgerId) external view returns (uint64 seq, bytes32 entryHash) {
        seq = _latestSeq[ledgerId];
        entryHash = _entryHashes[ledgerId][seq];
    }

    // ----------------------------------------------------------------------------------------- Merkle

    /// @notice Put the root of a tree of states on chain, as an event alone: the cheap way.
    /// @dev The contract doesn't see the states, so neither order nor uniqueness is enforced here: two roots
    /// may hold different hashes for one version, and the first in the chain's order counts.
    /// @param root The root, as `StateMerkle`.
    /// @param count How many states it has.
    function anchorRoot(bytes32 root, uint32 count) external onlyRole(SUBMITTER_ROLE) {
        _logRoot(root, count);
    }

    /// @notice Put the root of a tree of states on chain and store it, so that contracts can ask for it.
    /// @param root The root, as `StateMerkle`; refused if it is stored already.
    /// @param count How many states it has.
    function storeRoot(bytes32 root, uint32 count) external onlyRole(SUBMITTER_ROLE) {
        if (_roots[root].count != 0) revert RootAlreadyStored(root);
        _roots[root] = StoredRoot(msg.sender, uint64(block.timestamp), count);
        _logRoot(root, count);
    }

    /// @notice What is stored of a root.
    /// @param root The root.
    /// @return All zero if it isn't stored (it may still have been logged by `anchorRoot`).
    function rootOf(bytes32 root) external view returns (StoredRoot memory) {
        return _roots[root];
    }

    /// @notice Whether a state is in the tree under a root. That the root was anchored, and when, is said by
    /// its `RootAnchored` event; this function doesn't look.
    /// @param root The root.
    /// @param item The state.
    /// @param index The state's place in the tree, from 0.
    /// @param size The number of states in the tree.
    /// @param path Sibling hashes from the leaf up.
    /// @return True if the path leads from the state to the root.
    function verifyInRoot(
        bytes32 root,
        StateItem calldata item,
        uint256 index,
        uint256 size,
        bytes32[] calldata path
    ) external pure returns (bool) {
        return _isIn(root, item, index, size, path);
    }

    /// @notice Whether a state is in the tree under a root that this contract stores (`storeRoot`).
    /// @param root The root.
    /// @param item The state.
    /// @param index The state's place in the tree, from 0.
    /// @param path Sibling hashes from the leaf up.
    /// @return True if the root is stored and the path leads to it in a tree of the stored count.
    function verifyInStoredRoot(bytes32 root, StateItem calldata item, uint256 index, bytes32[] calldata path)
        external
        view
        returns (bool)
    {
        // A root that isn't stored has count 0, and no place in an empty tree holds anything.
        return _isIn(root, item, index, _roots[root].count, path);
    }

    // ---------------------------------------------------------------------------------------- private

    /// @dev Writes the state if it may be; never reverts. Answers the hash held before.
    function _writeState(bytes32 projectId, uint64 version, bytes32 stateHash, uint64 anchorId)
        private
        returns (Outcome, bytes32)
    {
        if (stateHash == bytes32(0)) return (Outcome.ZeroHash, bytes32(0));
        if (version == 0) return (Outcome.ZeroNumber, bytes32(0));
        mapping(uint256 => bytes32) storage hashes = _stateHashes[projectId];
        bytes32 held = hashes[version];
        if (held != bytes32(0)) return (held == stateHash ? Outcome.AlreadyThere : Outcome.Conflict, held);

        Project storage project = _projects[projectId];
        (uint64 first, uint64 last) = (project.firstVersion, project.latestVersion);
        if (first == 0) project.firstVersion = version;
        // No version between first and last is free, so a free one that isn't next is above or below.
        else if (version < first) return (Outcome.Behind, bytes32(0));
        else if (version - 1 != last) return (Outcome.Gap, bytes32(0));

        hashes[version] = stateHash;
        project.latestVersion = version;
        project.latestAnchorId = anchorId;
        project.latestAnchoredAt = uint64(block.timestamp);
        emit StateAnchored(anchorId, projectId, version, stateHash, uint64(block.timestamp), msg.sender);
        return (Outcome.Written, bytes32(0));
    }

    /// @dev Writes the head if it may be; never reverts. Answers the hash held before.
    function _writeHead(bytes32 ledgerId, uint64 seq, bytes32 entryHash) private returns (Outcome, bytes32) {
        if (entryHash == bytes32(0)) return (Outcome.ZeroHash, bytes32(0));
        if (seq == 0) return (Outcome.ZeroNumber, bytes32(0));
        mapping(uint256 => bytes32) storage hashes = _entryHashes[ledgerId];
        bytes32 held = hashes[seq];
        if (held != bytes32(0)) return (held == entryHash ? Outcome.AlreadyThere : Outcome.Conflict, held);
        if (seq < _latestSeq[ledgerId]) return (Outcome.Behind, bytes32(0));

        hashes[seq] = entryHash;
        _latestSeq[ledgerId] = seq;
        emit HeadAnchored(ledgerId, seq, entryHash, uint64(block.timestamp), msg.sender);
        return (Outcome.Written, bytes32(0));
    }

    /// @dev Refuses an empty root, else logs it.
    function _logRoot(bytes32 root, uint32 count) private {
        if (root == bytes32(0) || count == 0) revert EmptyRoot();
        emit RootAnchored(root, msg.sender, count, uint64(block.timestamp));
    }

    /// @dev Whether the path leads from the state to the root.
    function _isIn(
        bytes32 root,
        StateItem calldata item,
        uint256 index,
        uint256 size,
        bytes32[] calldata path
    ) private pure returns (bool) {
        bytes32 leaf = StateMerkle.leaf(item.projectId, item.version, item.stateHash);
        // docs/contracts.md answers both: they are about amounts and times, and this compares hashes.
        // slither-disable-next-line incorrect-equality,timestamp
        return root != bytes32(0) && StateMerkle.rootFrom(leaf, index, size, path) == root;
    }
}
