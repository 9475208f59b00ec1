"""Faults in the secure sums: the protocol, Paillier, the masks."""

from tests.mutants.faults.fault import Fault

PROTOCOL = "sklearn_fedpriv/secure/_protocol.py"
PAILLIER = "sklearn_fedpriv/secure/_paillier.py"
KEYS = "sklearn_fedpriv/secure/_paillier_keys.py"
ARITHMETIC = "sklearn_fedpriv/secure/_paillier_arithmetic.py"
PACKING = "sklearn_fedpriv/secure/_packing.py"
MASKS = "sklearn_fedpriv/secure/_masks.py"
MASK_KEYS = "sklearn_fedpriv/secure/_mask_keys.py"
MASK_WIRE = "sklearn_fedpriv/secure/_mask_wire.py"
KEYSTREAM = "sklearn_fedpriv/secure/_keystream.py"
SHARES = "sklearn_fedpriv/secure/_shares.py"

T_RUN = "tests/federation/test_run.py"
T_PROTOCOL = "tests/secure/test_protocol.py"
T_PAILLIER = "tests/secure/test_paillier.py"
T_KEYS = "tests/secure/test_paillier_keys.py"
T_PACKING = "tests/secure/test_packing.py"
T_MASKS = "tests/secure/test_masks.py"
T_MASK_ATTACKS = "tests/secure/test_masks_attacks.py"
T_MASK_KEYS = "tests/secure/test_masks_keys.py"
T_MASK_VECTORS = "tests/secure/test_masks_vectors.py"
T_MASK_FEDERATION = "tests/secure/test_masks_federation.py"
T_SHARES = "tests/secure/test_shares.py"
BOUND = f"{T_MASK_KEYS}::test_a_seed_depends_on_everything_it_is_bound_to"
ALTERED = f"{T_MASK_ATTACKS}::test_a_party_refuses_every_altered_request"
UNSEEN = f"{T_MASK_KEYS}::test_no_secret_is_in_public_records_messages_and_reprs"
GRAPH = f"{T_MASK_KEYS}::test_the_graph_holds_its_rule_and_no_fewer_than_degree_removals_split_it"
FEW = f"{T_MASK_ATTACKS}::test_one_helper_too_few_and_nothing_is_known"
RECKONS = (
    f"{T_MASK_FEDERATION}::test_a_release_reckons_with_all_colluders_also_where_few_are_invited"
)

FAULTS = [
    # shares
    Fault(
        "G9-too-few-parties-summed",
        PROTOCOL,
        "if len(seen) < task.fewest:",
        "if not seen:",
        (T_PROTOCOL,),
    ),
    # protocol
    Fault(
        "G16-replay-allowed",
        PROTOCOL,
        "if binding.release == number and known == request:",
        "if binding.release <= number:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G16-own-contribution-not-checked",
        PROTOCOL,
        "if own not in request.included:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G16-paillier-party-opens-anything",
        PAILLIER,
        "        check_own(task, own, request)\n",
        "",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G16-two-answers-of-one-party",
        PROTOCOL,
        "if answer.sender in seen:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G19-other-terms-accepted-by-the-server",
        PROTOCOL,
        "if message.binding.terms != binding.terms:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G19-answers-to-other-requests-accepted",
        PROTOCOL,
        "if message.answers != answers:",
        "if False:",
        (T_PROTOCOL,),
    ),
    Fault(
        "G18-blinding-too-short",
        KEYS,
        "return -(-self.key_size // 16)",
        "return -(-self.key_size // 64)",
        (f"{T_KEYS}::test_exponents_have_half_the_bits_of_the_key_and_are_drawn_at_once",),
    ),
    Fault(
        "G18-no-blinding",
        ARITHMETIC,
        "exponents = draw(entropy, len(plaintexts) * step)",
        "exponents = bytes(len(plaintexts) * step)",
        (f"{T_KEYS}::test_two_encryptions_of_the_same_words_differ_in_every_number",),
    ),
    Fault(
        "G18-one-collusion-opens-alone",
        PAILLIER,
        "lowest = max(1, n_parties - min_honest) + 1",
        "lowest = max(1, n_parties - min_honest)",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G18-small-keys-accepted",
        KEYS,
        "if key_size < SECURE_KEY_SIZE and not insecure_key:",
        "if False:",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G18-a-lone-ciphertext-is-opened",
        PAILLIER,
        "if len(request.included) < 2:",
        "if len(request.included) < 1:",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G19-wrong-openings-not-noticed",
        ARITHMETIC,
        "if any(power % n != 1 for power in powers):",
        "if False:",
        (T_PAILLIER, T_KEYS),
    ),
    Fault(
        "G12-slots-too-narrow",
        PACKING,
        "largest = all_biases + max(all_biases, task.limit)",
        "largest = all_biases",
        (T_PACKING,),
    ),
    Fault(
        "G12-words-too-long-accepted",
        PROTOCOL,
        "if needed > WORD_BITS:",
        "if needed > 2 * WORD_BITS:",
        (f"{T_RUN}::test_an_overflow_is_refused_before_anything_is_charged", T_PROTOCOL),
    ),
    # masks
    Fault(
        "G15-terms-left-out-of-seeds",
        MASK_KEYS,
        "context = (LABEL, binding, first",
        "context = (LABEL, binding.federation, binding.release, first",
        (BOUND,),
    ),
    Fault(
        "G15-federation-left-out-of-seeds",
        MASK_KEYS,
        "context = (LABEL, binding, first",
        "context = (LABEL, binding.terms, binding.release, first",
        (BOUND,),
    ),
    Fault(
        "G15-release-left-out-of-seeds",
        MASK_KEYS,
        "context = (LABEL, binding, first",
        "context = (LABEL, binding.federation, binding.terms, first",
        (BOUND,),
    ),
    Fault(
        "G15-nonces-left-out-of-seeds",
        MASK_KEYS,
        "nonces[first], nonces[second], purpose)",
        "purpose)",
        (
            BOUND,
            f"{T_MASK_ATTACKS}::test_the_same_release_under_other_nonces_has_other_masks",
        ),
    ),
    Fault(
        "G15-only-one-end-mixes-its-nonce-in",
        MASK_KEYS,
        "nonces[first], nonces[second], purpose)",
        "nonces[first], purpose)",
        (BOUND,),
    ),
    Fault(
        "G15-the-nonce-of-the-last-fit-again",
        MASKS,
        "self._nonce, self._nonces = draw(",
        "self._nonce, self._nonces = self._nonce or draw(",
        (f"{T_MASK_KEYS}::test_a_party_meets_all_the_others_or_does_not_start",),
    ),
    Fault(
        "G15-own-nonce-not-looked-for",
        MASKS,
        "if not self._nonce or nonces[self.name] != self._nonce:",
        "if False:",
        (f"{T_MASK_KEYS}::test_a_party_meets_all_the_others_or_does_not_start",),
    ),
    Fault(
        "G15-mask-and-bundles-from-the-same-seed",
        MASK_KEYS,
        "nonces[second], purpose)",
        "nonces[second])",
        (BOUND,),
    ),
    Fault(
        "G15-one-bundle-key-for-both-directions",
        MASKS,
        "return SHARES_UP if sender < receiver else SHARES_DOWN",
        "return SHARES_UP",
        (f"{T_MASK_KEYS}::test_the_key_of_a_bundle_is_used_in_one_direction_only",),
    ),
    Fault(
        "G15-bundles-keyed-with-the-mask-seed",
        MASKS,
        "return SHARES_UP if sender < receiver else SHARES_DOWN",
        "return MASK",
        (f"{T_MASK_KEYS}::test_the_key_of_a_bundle_is_used_in_one_direction_only",),
    ),
    Fault(
        "G15-own-mask-not-added",
        MASKS,
        "            streams.append((own_seed, 1))\n",
        "",
        (T_MASKS, T_MASK_ATTACKS),
    ),
    Fault(
        "G15-own-mask-from-a-known-seed",
        MASKS,
        "own_seed = draw(entropy, SEED_BYTES)",
        "own_seed = draw(entropy, SEED_BYTES) and bytes(SEED_BYTES)",
        (f"{T_MASK_ATTACKS}::test_own_masks_are_fresh_in_every_party_and_release",),
    ),
    Fault(
        "G15-only-the-first-chunk-is-masked",
        KEYSTREAM,
        "for cipher, sign in ciphers:",
        "for cipher, sign in ciphers if start == 0 else ():",
        (T_MASK_VECTORS,),
    ),
    Fault(
        "G15-seeds-cut-to-4-bytes",
        KEYSTREAM,
        "AES256(seed)",
        "AES256(seed[:4] * 8)",
        (f"{T_MASK_VECTORS}::test_every_bit_of_a_seed_matters",),
    ),
    Fault(
        "G15-pair-secrets-cut-to-4-bytes",
        MASK_KEYS,
        ".derive(shared)",
        ".derive(shared[:4])",
        (f"{T_MASK_VECTORS}::test_known_answers",),
    ),
    Fault(
        "G15-private-keys-shown",
        MASK_KEYS,
        "private_key: bytes = field(repr=False)",
        "private_key: bytes = field()",
        (UNSEEN,),
    ),
    Fault(
        "G15-private-keys-sent-for-nonces",
        MASKS,
        "self._nonce, self._nonces = draw(entropy, NONCE_BYTES), {}",
        "self._nonce, self._nonces = self._secret.private_key, {}",
        (UNSEEN,),
    ),
    Fault(
        "G15-a-key-of-small-order-accepted",
        MASK_KEYS,
        "except ValueError as error:  # a point of small order\n",
        "except ValueError:\n        shared = error = bytes(KEY_BYTES)\n    if not shared:\n",
        (f"{T_MASK_KEYS}::test_a_public_key_of_small_order_is_refused",),
    ),
    Fault(
        "G15-another-key-under-the-own-name",
        MASKS,
        "if secret.party != name or keys.of.get(name) != secret.public_key:",
        "if secret.party != name:",
        (f"{T_MASK_KEYS}::test_wrong_keys_are_refused",),
    ),
    Fault(
        "G15-colluders-are-all-the-neighbours",
        MASK_KEYS,
        "wanted = c + 1 if d == 0",
        "wanted = max(1, c) if d == 0",
        (GRAPH,),
    ),
    Fault(
        "G15-two-lists-for-two-halves-of-the-neighbours",
        MASK_KEYS,
        "else c + 2 * d + 1",
        "else c + d + 1",
        (GRAPH,),
    ),
    Fault(
        "G15-as-many-colluders-as-the-threshold",
        MASK_KEYS,
        "if d and degree - d <= c:",
        "if d and degree - d < c:",
        (f"{T_MASK_KEYS}::test_what_no_graph_serves_is_refused",),
    ),
    Fault(
        "G15-threshold-one-lower",
        MASK_KEYS,
        "return Graph(parties, degree, degree - d if d else 0)",
        "return Graph(parties, degree, max(1, degree - d - 1) if d else 0)",
        (GRAPH,),
    ),
    Fault(
        "G15-shares-of-a-degree-too-small",
        SHARES,
        "_uniform(threshold - 1, constants.size, entropy)",
        "_uniform(max(0, threshold - 2), constants.size, entropy)",
        (FEW,),
    ),
    Fault(
        "G15-coefficients-not-random",
        SHARES,
        "_uniform(threshold - 1, constants.size, entropy)",
        "0 * _uniform(threshold - 1, constants.size, entropy)",
        (FEW,),
    ),
    Fault(
        "G15-one-polynomial-for-all-secrets",
        SHARES,
        "_uniform(threshold - 1, constants.size, entropy)",
        "np.tile(_uniform(threshold - 1, N_LIMBS, entropy), (1, len(secrets)))",
        (FEW,),
    ),
    Fault(
        "G15-both-seeds-of-a-live-pair-opened",
        MASKS,
        "if not ordered or named != list(task.parties):",
        "if not ordered or set(named) != set(task.parties):",
        (ALTERED,),
    ),
    Fault(
        "G15-masks-of-survivors-opened",
        MASK_WIRE,
        "return [0, *(points[name] for name in dropped if name in points)]",
        "return [0, *points.values()]",
        (
            f"{T_MASK_ATTACKS}"
            "::test_a_request_opens_own_seeds_of_survivors_and_masks_of_dropouts_only",
        ),
    ),
    Fault(
        "G16-called-dropped-and-opens-all-the-same",
        MASKS,
        "        if self.name in dropped:\n"
        '            raise ProtocolError(f"{what} has sent its words and is called dropped; it'
        ' refuses.")\n',
        "        if self.name in dropped:\n            return\n",
        (
            ALTERED,
            f"{T_MASK_ATTACKS}::test_a_live_party_called_dropped_stays_hidden_by_its_own_mask",
        ),
    ),
    Fault(
        "G16-own-digest-not-checked",
        MASKS,
        "if not alike or len(request.digests)",
        "if len(request.digests)",
        (ALTERED,),
    ),
    Fault(
        "G16-another-release-opened",
        MASKS,
        "if request.binding != task.binding or request.answers != task.request:",
        "if request.binding.release < task.binding.release:",
        (ALTERED,),
    ),
    Fault(
        "G16-lists-of-survivors-mixed",
        MASK_WIRE,
        "if opening.payload[:DIGEST_BYTES] != list_digest:",
        "if False:",
        (f"{T_MASK_ATTACKS}::test_openings_for_different_lists_do_not_add_up",),
    ),
    Fault(
        "G9-a-party-opens-for-too-few",
        MASKS,
        "if len(survivors) < task.fewest:",
        "if not survivors:",
        (ALTERED,),
    ),
    Fault(
        "G12-words-of-32-bits-where-64-are-needed",
        MASK_WIRE,
        "32 if task.limit.bit_length() < 32 else 64",
        "32 if task.limit.bit_length() <= 32 else 64",
        (f"{T_MASKS}::test_a_sum_at_its_limit",),
    ),
    Fault(
        "G12-masked-words-too-long-accepted",
        MASK_WIRE,
        "    check_word_size(task)\n",
        "",
        (f"{T_MASKS}::test_a_sum_that_might_not_fit_is_refused_by_both_roles",),
    ),
    Fault(
        "G15-colluders-forgotten-in-the-graph",
        MASK_WIRE,
        "graph_of(task.parties, keys.n_colluders, task.max_dropouts)",
        "graph_of(task.parties, 0, task.max_dropouts)",
        (RECKONS,),
    ),
    Fault(
        "G15-keys-say-that-nobody-colludes",
        MASKS,
        "return MaskKeys(names, public_keys, min_honest), secrets",
        "return MaskKeys(names, public_keys, len(names)), secrets",
        (RECKONS,),
    ),
    Fault(
        "G15-own-seed-is-the-public-nonce",
        MASKS,
        "own_seed = draw(entropy, SEED_BYTES)",
        "own_seed = self._nonce",
        (UNSEEN,),
    ),
    Fault(
        "G15-shares-from-no-entropy",
        MASKS,
        "plan.graph.threshold, plan.graph.degree, entropy)",
        "plan.graph.threshold, plan.graph.degree, bytes)",
        (FEW,),
    ),
    Fault(
        "G15-coefficients-of-8-bits",
        SHARES,
        "& np.uint32(PRIME)",
        "& np.uint32(255)",
        (f"{T_SHARES}::test_shares_are_uniform",),
    ),
    Fault(
        "G16-contributions-named-without-their-words",
        MASK_WIRE,
        "return digest((message.binding, message.answers, message.sender, payload))",
        "return digest((message.binding, message.answers, message.sender))",
        (f"{T_MASK_ATTACKS}::test_a_party_opens_for_its_own_words_only",),
    ),
    Fault(
        "G16-lists-named-without-the-contributions",
        MASK_WIRE,
        "return digest((binding, answers, survivors, dropped, digests))",
        "return digest((binding, answers, survivors, dropped))",
        (f"{T_MASK_ATTACKS}::test_openings_for_other_words_of_the_same_parties_do_not_add_up",),
    ),
]
