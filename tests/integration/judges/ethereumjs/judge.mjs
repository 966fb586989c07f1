// EthereumJS as a judge: validates the consensus of an exported chain, re-executes it, says what it found as JSON.
// Usage: node judge.mjs GENESIS.JSON CHAIN.RLP
import fs from 'node:fs'

import { cliqueSigner, createBlockFromBytesArray } from '@ethereumjs/block'
import { CliqueConsensus, createBlockchain } from '@ethereumjs/blockchain'
import { createCommonFromGethGenesis } from '@ethereumjs/common'
import { createEVM } from '@ethereumjs/evm'
import { RLP } from '@ethereumjs/rlp'
import { MerkleStateManager } from '@ethereumjs/statemanager'
import { Account, bytesToHex, createAddressFromString } from '@ethereumjs/util'
import { createVM, runBlock } from '@ethereumjs/vm'

const genesis = JSON.parse(fs.readFileSync(process.argv[2]))
const common = createCommonFromGethGenesis(genesis, { chain: 'chainmemory', hardfork: 'london' })

// The file is one RLP list per block, one after another.
const blocks = []
let rest = new Uint8Array(fs.readFileSync(process.argv[3]))
while (rest.length > 0) {
  const { data, remainder } = RLP.decode(rest, true)
  blocks.push(createBlockFromBytesArray(data, { common, setHardfork: false }))
  rest = remainder
}

const blockchain = await createBlockchain({
  common,
  genesisBlock: blocks[0],
  validateBlocks: true,
  validateConsensus: true,
  consensusDict: { clique: new CliqueConsensus() },
})
for (const block of blocks.slice(1)) await blockchain.putBlock(block)
const signers = blockchain.consensus.cliqueActiveSigners(BigInt(blocks.length)).map(String)

const stateManager = new MerkleStateManager({ common })
const evm = await createEVM({ common, blockchain, cliqueSigner, stateManager })
const vm = await createVM({ common, blockchain, evm, stateManager })
await stateManager.checkpoint()
for (const [address, { balance }] of Object.entries(genesis.alloc)) {
  await stateManager.putAccount(createAddressFromString(`0x${address}`), new Account(0n, BigInt(balance)))
}
await stateManager.commit()
let root = await stateManager.getStateRoot()
if (bytesToHex(root) !== bytesToHex(blocks[0].header.stateRoot)) throw new Error('genesis state root differs')
let transactions = 0
for (const block of blocks.slice(1)) {
  // runBlock compares state root, receipts root, bloom and gas with the header, and throws where they differ.
  const result = await runBlock(vm, { block, root, skipBlockValidation: true, skipHardForkValidation: true })
  root = result.stateRoot
  transactions += block.transactions.length
}
console.log(
  JSON.stringify({
    head: bytesToHex(blocks.at(-1).hash()),
    stateRoot: bytesToHex(root),
    blocks: blocks.length,
    transactions,
    signers: signers.sort(),
  }),
)
