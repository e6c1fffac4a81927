// Exact maximum monomial agreement by branch and bound, on one thread.
//
// maximise over signs s and monomials, with C the rows that the monomial covers,
//   sum of w over rows of class s in C - sum of w over rows of the other class in C
//   + sum of v over pairs (i, i') with i of class s in C and i' of the other class not in C - costs[number of literals]
//
// In the search of one sign the rows of class s are the gains, the others the losses. A node is a cover and a list of literals still allowed; its
// children are taken in ascending order of their bounds, and each keeps only the literals after it. All numbers are 64-bit integers.
//
// Standard input, native byte order: int64 rows, features, orders, pairs; int64 costs[orders] (nondecreasing; orders beyond are forbidden);
// int64 weights[rows]; int64 pairs[pairs][3] (i, i', v); int8 labels[rows] (+1 or -1); uint8 features[rows][features] (0 or 1).
// Standard output: lines of "name numbers".

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {

using Word = std::uint64_t;
using Int = std::int64_t;
using Clock = std::chrono::steady_clock;

enum class Flow { none, classes, greedy, pairs };

struct Options {
    Flow flow = Flow::greedy;
    int rounds = 4;      // of matchings, for Flow::pairs
    int nested = -1;     // how many nearest nested literals are compared on each side; -1: all
    int batch = 1;       // nodes that are expanded between two updates of the incumbent that prunes
    int beam = 16;       // states a level
    int passes = 1000;   // of flow and elimination in a node
    bool tail = true;    // false: the children of a node stay in the order of their literals
    double cap = 1e18;   // seconds
};

struct Instance {
    Int rows, features;
    std::vector<Int> costs, weights;
    std::vector<std::array<Int, 3>> pairs;
    std::vector<std::int8_t> labels;
    std::vector<std::uint8_t> x;
};

struct Counts {
    Int popped = 0;     // nodes taken from the stack with a bound above the incumbent
    Int expanded = 0;   // of these, nodes with at least one child above it
    Int children = 0;   // children above the incumbent, whose values were evaluated
    Int tested = 0;     // literals in the lists of the nodes popped
    Int flows = 0;      // flows computed
    Int listed = 0;     // literals left for the first flow of a node
    Int wide = 0;       // nodes with more than 64 of them
};

struct Best {
    Int value = std::numeric_limits<Int>::min();
    int sign = 1;
    std::vector<int> literals;
};

Int sum_over(const Int* values, const Word* bits, int words) {
#ifdef __AVX512F__
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (int k = 0; k < words; ++k, values += 64) {
        const Word b = bits[k];
        if (b == 0) continue;
        for (int j = 0; j < 64; j += 16) {
            even = _mm512_mask_add_epi64(even, static_cast<__mmask8>(b >> j), even, _mm512_loadu_si512(values + j));
            odd = _mm512_mask_add_epi64(odd, static_cast<__mmask8>(b >> (j + 8)), odd, _mm512_loadu_si512(values + j + 8));
        }
    }
    return _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd));
#else
    Int total = 0;
    for (int k = 0; k < words; ++k, values += 64)
        for (Word b = bits[k]; b != 0; b &= b - 1) total += values[std::countr_zero(b)];
    return total;
#endif
}

int count(const Word* bits, int words) {
    int total = 0;
    for (int k = 0; k < words; ++k) total += std::popcount(bits[k]);
    return total;
}

void transpose(Word a[64]) {
    Word mask = 0x00000000FFFFFFFFULL;
    for (int j = 32; j != 0; j >>= 1, mask ^= mask << j)
        for (int k = 0; k < 64; k = ((k | j) + 1) & ~j) {
            const Word t = ((a[k] >> j) ^ a[k | j]) & mask;
            a[k] ^= t << j;
            a[k | j] ^= t;
        }
}

// Rows of one class that matter to one sign, identical ones merged.
struct Rows {
    std::vector<Int> weight;       // padded with zeros to whole words
    std::vector<int> example;      // one of the examples merged
    std::vector<int> row_of;       // of each example, -1 if it does not matter
    int size = 0, words = 0;
};

// The search problem of one sign.
struct Side {
    int sign = 1;
    Rows gain, loss;
    std::vector<std::vector<std::pair<int, Int>>> rewards;  // of each gain: (loss, v); v is in the weight of the gain already
    bool has_rewards = false;
    std::vector<int> name;               // of each distinct literal that is not constant: j for x_j, features + j for not x_j
    std::vector<Word> in_gain, in_loss;  // their covers
    std::vector<std::vector<int>> above; // literals that cover more, nearest first
    std::vector<std::vector<std::pair<int, int>>> matchings;  // (gain, loss)
    int literals = 0;

    const Word* gains_of(int l) const { return &in_gain[static_cast<std::size_t>(l) * gain.words]; }
    const Word* losses_of(int l) const { return &in_loss[static_cast<std::size_t>(l) * loss.words]; }
};

Rows merge_rows(const Instance& instance, int label, const std::vector<Int>& weight, const std::vector<bool>& matters) {
    Rows rows;
    rows.row_of.assign(instance.rows, -1);
    std::unordered_map<std::string, int> seen;
    for (Int i = 0; i < instance.rows; ++i) {
        if (instance.labels[i] != label || !matters[i]) continue;
        std::string key(reinterpret_cast<const char*>(&instance.x[i * instance.features]), instance.features);
        const auto [found, is_new] = seen.emplace(std::move(key), rows.size);
        if (is_new) {
            rows.weight.push_back(0);
            rows.example.push_back(static_cast<int>(i));
            ++rows.size;
        }
        rows.row_of[i] = found->second;
        rows.weight[found->second] += weight[i];
    }
    rows.words = std::max(1, (rows.size + 63) / 64);
    rows.weight.resize(64 * static_cast<std::size_t>(rows.words), 0);
    return rows;
}

void find_nested(Side& side, int nearest) {
    const int n = side.literals, a = side.gain.words, b = side.loss.words;
    std::vector<int> size(n), order(n);
    for (int l = 0; l < n; ++l) {
        size[l] = count(side.gains_of(l), a) + count(side.losses_of(l), b);
        order[l] = l;
    }
    std::sort(order.begin(), order.end(), [&](int l, int m) { return size[l] < size[m]; });
    side.above.assign(n, {});
    if (nearest == 0) return;
    std::vector<std::vector<int>> below(n);
    for (int i = 0; i < n; ++i)
        for (int j = i + 1; j < n; ++j) {
            const int l = order[i], m = order[j];
            bool inside = size[l] < size[m];
            for (int k = 0; inside && k < a; ++k) inside = (side.gains_of(l)[k] & ~side.gains_of(m)[k]) == 0;
            for (int k = 0; inside && k < b; ++k) inside = (side.losses_of(l)[k] & ~side.losses_of(m)[k]) == 0;
            if (!inside) continue;
            side.above[l].push_back(m);
            below[m].push_back(l);
        }
    if (nearest < 0) return;
    for (auto& larger : side.above)
        if (static_cast<int>(larger.size()) > nearest) larger.resize(nearest);
    for (int m = 0; m < n; ++m)
        for (int i = 0; i < std::min(nearest, static_cast<int>(below[m].size())); ++i) {
            const int l = below[m][below[m].size() - 1 - i];
            if (std::find(side.above[l].begin(), side.above[l].end(), m) == side.above[l].end()) side.above[l].push_back(m);
        }
}

void find_matchings(const Instance& instance, Side& side, int rounds) {
    const int words = static_cast<int>((instance.features + 63) / 64);
    const auto pack = [&](const Rows& rows) {
        std::vector<Word> bits(static_cast<std::size_t>(rows.size) * words, 0);
        for (int r = 0; r < rows.size; ++r)
            for (Int j = 0; j < instance.features; ++j)
                if (instance.x[rows.example[r] * instance.features + j]) bits[static_cast<std::size_t>(r) * words + j / 64] |= Word{1} << (j % 64);
        return bits;
    };
    const std::vector<Word> p = pack(side.gain), n = pack(side.loss);
    std::vector<std::vector<std::pair<int, int>>> at_distance(instance.features + 1);
    for (int j = 0; j < side.loss.size; ++j)
        for (int i = 0; i < side.gain.size; ++i) {
            const Word *at = &p[static_cast<std::size_t>(i) * words], *to = &n[static_cast<std::size_t>(j) * words];
            int distance = 0;
            for (int k = 0; k < words; ++k) distance += std::popcount(at[k] ^ to[k]);
            at_distance[distance].emplace_back(i, j);
        }
    for (int round = 0; round < rounds; ++round) {
        std::vector<bool> gain_used(side.gain.size), loss_used(side.loss.size);
        auto& matching = side.matchings.emplace_back();
        for (auto& pairs : at_distance)
            std::erase_if(pairs, [&](const std::pair<int, int>& pair) {
                if (gain_used[pair.first] || loss_used[pair.second]) return false;
                gain_used[pair.first] = loss_used[pair.second] = true;
                matching.push_back(pair);
                return true;
            });
    }
}

Side make_side(const Instance& instance, int sign, const Options& options) {
    Side side;
    side.sign = sign;
    std::vector<Int> weight = instance.weights;
    std::vector<bool> matters(instance.rows);
    for (Int i = 0; i < instance.rows; ++i) matters[i] = weight[i] > 0;
    for (const auto& [i, other, v] : instance.pairs)
        if (v > 0 && instance.labels[i] == sign) {
            weight[i] += v;
            matters[i] = matters[other] = true;
        }
    side.gain = merge_rows(instance, sign, weight, matters);
    side.loss = merge_rows(instance, -sign, weight, matters);
    std::map<std::pair<int, int>, Int> merged;
    for (const auto& [i, other, v] : instance.pairs)
        if (v > 0 && instance.labels[i] == sign) merged[{side.gain.row_of[i], side.loss.row_of[other]}] += v;
    side.rewards.resize(side.gain.size);
    for (const auto& [pair, v] : merged) side.rewards[pair.first].emplace_back(pair.second, v);
    side.has_rewards = !merged.empty();

    const int a = side.gain.words, b = side.loss.words;
    std::unordered_set<std::string> seen;
    std::vector<Word> cover(a + b);
    for (int l = 0; l < 2 * instance.features; ++l) {
        const Int j = l % instance.features;
        const int wanted = l < instance.features;
        std::fill(cover.begin(), cover.end(), 0);
        for (int r = 0; r < side.gain.size; ++r)
            if (instance.x[side.gain.example[r] * instance.features + j] == wanted) cover[r / 64] |= Word{1} << (r % 64);
        for (int r = 0; r < side.loss.size; ++r)
            if (instance.x[side.loss.example[r] * instance.features + j] == wanted) cover[a + r / 64] |= Word{1} << (r % 64);
        const int covered = count(cover.data(), a + b);
        if (covered == 0 || covered == side.gain.size + side.loss.size) continue;
        if (!seen.emplace(reinterpret_cast<const char*>(cover.data()), cover.size() * sizeof(Word)).second) continue;
        side.name.push_back(l);
        side.in_gain.insert(side.in_gain.end(), cover.begin(), cover.begin() + a);
        side.in_loss.insert(side.in_loss.end(), cover.begin() + a, cover.end());
    }
    side.literals = static_cast<int>(side.name.size());
    find_nested(side, options.nested);
    if (options.flow == Flow::pairs) find_matchings(instance, side, options.rounds);
    return side;
}

struct Node {
    Int bound;
    int order;
    std::vector<Word> gains, losses;
    std::vector<std::uint16_t> allowed, path;
};

class Search {
public:
    Search(const Instance& instance, const Options& options, const Side& side, Best& best, Counts& counts, Clock::time_point deadline)
        : options_(options), side_(side), best_(best), counts_(counts), deadline_(deadline), a_(side.gain.words), b_(side.loss.words) {
        costs_ = instance.costs;
        const int deepest = std::min<int>(static_cast<int>(costs_.size()) - 1, static_cast<int>(instance.features));
        costs_.resize(deepest + 1);
        is_free_ = deepest == instance.features && costs_.front() == 0 && costs_.back() == 0;
        position_.assign(side.literals, -1);
        gain_position_.assign(64 * a_, -1);
        loss_position_.assign(64 * b_, -1);
        covered_gains_.resize(static_cast<std::size_t>(side.literals) * a_ + 1);
        covered_losses_.resize(static_cast<std::size_t>(side.literals) * b_ + 1);
        for (auto* numbers : {&num_gains_, &num_losses_}) numbers->resize(side.literals);
        for (auto* numbers : {&covered_weight_, &child_bound_}) numbers->resize(side.literals);
        residual_.assign(64 * a_, 0);
        remaining_.assign(64 * b_, 0);
        unremovable_.resize(b_);
    }

    // Raises the incumbent by a beam search.
    void beam() {
        struct State {
            Int value;
            std::vector<Word> gains, losses;
            std::vector<std::uint16_t> path;
        };
        struct Candidate {
            Int value;
            Word hash;
            int state, literal;
        };
        std::vector<State> states(1);
        states[0].gains = all(side_.gain);
        states[0].losses = all(side_.loss);
        offer(value_of(states[0].gains.data(), states[0].losses.data()) - costs_[0], {});
        std::vector<Word> gains(a_), losses(b_);
        std::vector<Candidate> candidates;
        Int last = std::numeric_limits<Int>::min();
        for (int order = 0, stale = 0; order + 1 < static_cast<int>(costs_.size()) && stale < 3 && !states.empty(); ++order) {
            candidates.clear();
            for (int s = 0; s < static_cast<int>(states.size()); ++s)
                for (int l = 0; l < side_.literals; ++l) {
                    Word removed = 0, hash = 0;
                    for (int k = 0; k < b_; ++k) {
                        losses[k] = states[s].losses[k] & side_.losses_of(l)[k];
                        removed |= losses[k] ^ states[s].losses[k];
                        hash = mix(hash, losses[k]);
                    }
                    if (removed == 0) continue;
                    for (int k = 0; k < a_; ++k) {
                        gains[k] = states[s].gains[k] & side_.gains_of(l)[k];
                        hash = mix(hash, gains[k]);
                    }
                    if (sum_over(side_.gain.weight.data(), gains.data(), a_) - costs_[order + 1] <= best_.value) continue;
                    candidates.push_back({value_of(gains.data(), losses.data()) - costs_[order + 1], hash, s, l});
                }
            std::sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
                return x.value != y.value ? x.value > y.value : x.hash < y.hash;
            });
            std::vector<State> next;
            for (std::size_t c = 0; c < candidates.size() && static_cast<int>(next.size()) < options_.beam; ++c) {
                if (c > 0 && candidates[c].value == candidates[c - 1].value && candidates[c].hash == candidates[c - 1].hash) continue;
                State& made = next.emplace_back(states[candidates[c].state]);
                for (int k = 0; k < a_; ++k) made.gains[k] &= side_.gains_of(candidates[c].literal)[k];
                for (int k = 0; k < b_; ++k) made.losses[k] &= side_.losses_of(candidates[c].literal)[k];
                made.path.push_back(static_cast<std::uint16_t>(candidates[c].literal));
                made.value = candidates[c].value;
            }
            states = std::move(next);
            if (states.empty()) break;
            offer(states[0].value, states[0].path);
            stale = states[0].value > last ? 0 : stale + 1;
            last = std::max(last, states[0].value);
        }
    }

    // Proves the incumbent optimal for this sign; false if it ran out of time.
    bool run() {
        Node root;
        root.bound = std::numeric_limits<Int>::max();
        root.order = 0;
        root.gains = all(side_.gain);
        root.losses = all(side_.loss);
        for (int l = 0; l < side_.literals; ++l) root.allowed.push_back(static_cast<std::uint16_t>(l));
        push(root.bound, 0, root.gains.data(), root.losses.data(), root.allowed.data(), side_.literals, {}, -1);
        std::vector<Node> batch(options_.batch);
        pruning_ = best_.value;
        for (Int step = 0; !stack_.empty(); ++step) {
            if (step % 256 == 255 && Clock::now() > deadline_) return false;
            int taken = 0;
            while (taken < options_.batch && !stack_.empty()) taken += pop(batch[taken]);
            for (int i = 0; i < taken; ++i) expand(batch[i]);
            pruning_ = best_.value;
        }
        return true;
    }

private:
    static std::vector<Word> all(const Rows& rows) {
        std::vector<Word> bits(rows.words, 0);
        for (int r = 0; r < rows.size; ++r) bits[r / 64] |= Word{1} << (r % 64);
        return bits;
    }

    static Word mix(Word hash, Word value) {
        hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
        return hash ^ (hash >> 29);
    }

    void offer(Int value, const std::vector<std::uint16_t>& path, int more = -1) {
        if (value <= best_.value) return;
        best_.value = value;
        best_.sign = side_.sign;
        best_.literals.clear();
        for (const int l : path) best_.literals.push_back(side_.name[l]);
        if (more >= 0) best_.literals.push_back(side_.name[more]);
    }

    Int value_of(const Word* gains, const Word* losses) const {
        return sum_over(side_.gain.weight.data(), gains, a_) - spent(gains, losses);
    }

    Int spent(const Word* gains, const Word* losses) const {
        Int total = sum_over(side_.loss.weight.data(), losses, b_);
        if (side_.has_rewards)
            for (int k = 0; k < a_; ++k)
                for (Word bits = gains[k]; bits != 0; bits &= bits - 1)
                    for (const auto& [n, v] : side_.rewards[64 * k + std::countr_zero(bits)])
                        if (losses[n / 64] >> (n % 64) & 1) total += v;
        return total;
    }

    void push(Int bound, int order, const Word* gains, const Word* losses, const std::uint16_t* allowed, int num_allowed,
              const std::vector<std::uint16_t>& path, int more) {
        const int num_path = static_cast<int>(path.size()) + (more >= 0);
        const int shorts = (num_allowed + num_path + 3) / 4;
        const std::size_t start = stack_.size();
        stack_.resize(start + a_ + b_ + shorts + 3);
        Word* to = &stack_[start];
        std::memcpy(to, gains, a_ * sizeof(Word));
        std::memcpy(to + a_, losses, b_ * sizeof(Word));
        auto* lists = reinterpret_cast<std::uint16_t*>(to + a_ + b_);
        std::memcpy(lists, allowed, num_allowed * sizeof(std::uint16_t));
        std::memcpy(lists + num_allowed, path.data(), path.size() * sizeof(std::uint16_t));
        if (more >= 0) lists[num_allowed + num_path - 1] = static_cast<std::uint16_t>(more);
        to += a_ + b_ + shorts;
        to[0] = static_cast<Word>(bound);
        to[1] = static_cast<Word>(order);
        to[2] = static_cast<Word>(num_allowed) << 32 | static_cast<Word>(num_path);
    }

    bool pop(Node& node) {
        const Word* top = stack_.data() + stack_.size() - 3;
        const int num_allowed = static_cast<int>(top[2] >> 32), num_path = static_cast<int>(top[2] & 0xFFFFFFFF);
        const int shorts = (num_allowed + num_path + 3) / 4;
        const Word* from = top - shorts - a_ - b_;
        node.bound = static_cast<Int>(top[0]);
        const bool is_wanted = node.bound > pruning_;
        if (is_wanted) {
            node.order = static_cast<int>(top[1]);
            node.gains.assign(from, from + a_);
            node.losses.assign(from + a_, from + a_ + b_);
            const auto* lists = reinterpret_cast<const std::uint16_t*>(from + a_ + b_);
            node.allowed.assign(lists, lists + num_allowed);
            node.path.assign(lists + num_allowed, lists + num_allowed + num_path);
        }
        stack_.resize(from - stack_.data());
        return is_wanted;
    }

    // Products of the cover with the allowed literals; drops those that cannot help, applies those that cannot hurt. Lists are compacted.
    void intersect(Node& node) {
        const Int threshold = pruning_ + costs_[node.order + 1];
        for (bool again = true; again;) {
            again = false;
            const int all_gains = count(node.gains.data(), a_);
            int all_losses = count(node.losses.data(), b_);
            int kept = 0;
            for (const int l : node.allowed) {
                Word* gains = &covered_gains_[static_cast<std::size_t>(kept) * a_];
                Word* losses = &covered_losses_[static_cast<std::size_t>(kept) * b_];
                int num_losses = 0, num_gains = 0;
                for (int k = 0; k < b_; ++k) num_losses += std::popcount(losses[k] = node.losses[k] & side_.losses_of(l)[k]);
                if (num_losses == all_losses) continue;
                for (int k = 0; k < a_; ++k) num_gains += std::popcount(gains[k] = node.gains[k] & side_.gains_of(l)[k]);
                if (is_free_ && num_gains == all_gains) {
                    std::copy(losses, losses + b_, node.losses.begin());
                    all_losses = num_losses;
                    node.path.push_back(static_cast<std::uint16_t>(l));
                    again = true;
                    continue;
                }
                const Int weight = sum_over(side_.gain.weight.data(), gains, a_);
                if (weight <= threshold) continue;
                covered_weight_[kept] = weight;
                num_gains_[kept] = num_gains;
                num_losses_[kept] = num_losses;
                node.allowed[kept++] = static_cast<std::uint16_t>(l);
            }
            node.allowed.resize(kept);
            if (again) offer(value_of(node.gains.data(), node.losses.data()) - costs_[node.order], node.path);
        }
    }

    template <typename Keep>
    bool keep_if(Node& node, Keep keep) {
        int kept = 0;
        const int n = static_cast<int>(node.allowed.size());
        for (int i = 0; i < n; ++i) {
            if (!keep(i)) continue;
            if (kept != i) {
                std::copy_n(&covered_gains_[static_cast<std::size_t>(i) * a_], a_, &covered_gains_[static_cast<std::size_t>(kept) * a_]);
                std::copy_n(&covered_losses_[static_cast<std::size_t>(i) * b_], b_, &covered_losses_[static_cast<std::size_t>(kept) * b_]);
                covered_weight_[kept] = covered_weight_[i];
                child_bound_[kept] = child_bound_[i];
                num_gains_[kept] = num_gains_[i];
                num_losses_[kept] = num_losses_[i];
                node.allowed[kept] = node.allowed[i];
            }
            ++kept;
        }
        node.allowed.resize(kept);
        return kept < n;
    }

    // Losses that every allowed literal covers, and their weight.
    Int unremovable_weight(const Node& node) {
        std::copy(node.losses.begin(), node.losses.end(), unremovable_.begin());
        for (std::size_t i = 0; i < node.allowed.size(); ++i)
            for (int k = 0; k < b_; ++k) unremovable_[k] &= covered_losses_[i * b_ + k];
        return sum_over(side_.loss.weight.data(), unremovable_.data(), b_);
    }

    // Drops a literal if a nested one keeps its gains and removes its losses.
    bool drop_dominated(Node& node) {
        const int n = static_cast<int>(node.allowed.size());
        dropped_.assign(n, 0);
        for (int i = 0; i < n; ++i) position_[node.allowed[i]] = i;
        bool any = false;
        for (int i = 0; i < n; ++i)
            for (const int m : side_.above[node.allowed[i]]) {
                const int j = position_[m];
                if (j < 0) continue;
                if (num_losses_[i] == num_losses_[j]) {
                    dropped_[i] = 1;
                    any = true;
                } else if (num_gains_[i] == num_gains_[j]) {
                    dropped_[j] = 1;
                    any = true;
                }
            }
        for (const int l : node.allowed) position_[l] = -1;
        if (any) keep_if(node, [&](int i) { return !dropped_[i]; });
        return any;
    }

    // Which allowed literals cover each row: signatures of 64 literals a word, gains by falling and losses by rising number of literals.
    void sign_rows(const Node& node, bool of_gains) {
        const int n = static_cast<int>(node.allowed.size()), w = of_gains ? a_ : b_;
        const std::vector<Word>& covered = of_gains ? covered_gains_ : covered_losses_;
        const std::vector<Word>& rows = of_gains ? node.gains : node.losses;
        std::vector<Word>& signatures = of_gains ? gain_signature_ : loss_signature_;
        std::vector<int>& list = of_gains ? gain_list_ : loss_list_;
        std::vector<int>& position = of_gains ? gain_position_ : loss_position_;
        signature_words_ = (n + 63) / 64;
        raw_.resize(static_cast<std::size_t>(signature_words_) * w * 64);
        for (int k = 0; k < w; ++k) {
            if (rows[k] == 0) continue;
            for (int f = 0; f < signature_words_; ++f) {
                Word* block = &raw_[(static_cast<std::size_t>(f) * w + k) * 64];
                const int many = std::min(64, n - 64 * f);
                for (int j = 0; j < many; ++j) block[j] = covered[static_cast<std::size_t>(64 * f + j) * w + k];
                std::fill(block + many, block + 64, 0);
                transpose(block);
            }
        }
        bucket_.assign(n + 2, 0);
        found_.clear();
        for (int k = 0; k < w; ++k)
            for (Word bits = rows[k]; bits != 0; bits &= bits - 1) {
                const int r = 64 * k + std::countr_zero(bits);
                if (!of_gains && (unremovable_[k] >> (r % 64) & 1) && !side_.has_rewards) continue;
                int literals = 0;
                for (int f = 0; f < signature_words_; ++f) literals += std::popcount(raw_[static_cast<std::size_t>(f) * w * 64 + r]);
                const int key = of_gains ? n - literals : literals;
                found_.emplace_back(r, key);
                ++bucket_[key + 1];
            }
        for (int k = 0; k <= n; ++k) bucket_[k + 1] += bucket_[k];
        const int m = static_cast<int>(found_.size());
        list.resize(m);
        const int stride = (m + 7) / 8 * 8;
        signatures.assign(static_cast<std::size_t>(signature_words_) * stride, 0);
        for (const auto& [r, key] : found_) {
            const int at = bucket_[key]++;
            list[at] = r;
            position[r] = at;
            for (std::size_t f = 0; f < static_cast<std::size_t>(signature_words_); ++f) signatures[f * stride + at] = raw_[f * w * 64 + r];
        }
        (of_gains ? gain_stride_ : loss_stride_) = stride;
    }

    bool forces(int p, int n) const {
        for (std::size_t f = 0; f < static_cast<std::size_t>(signature_words_); ++f)
            if (gain_signature_[f * gain_stride_ + p] & ~loss_signature_[f * loss_stride_ + n] & alive_[f]) return false;
        return true;
    }

    // Gains with a residual among eight that force loss n to survive (or, for classes, that no allowed literal tells from it).
    unsigned forcing(int block, int n, bool equal) const {
        unsigned mask = open_[block];
        for (int f = 0; f < signature_words_; ++f) {
            const Word* p = &gain_signature_[static_cast<std::size_t>(f) * gain_stride_ + 8 * block];
            const Word s = loss_signature_[static_cast<std::size_t>(f) * loss_stride_ + n];
#ifdef __AVX512F__
            const __m512i eight = _mm512_loadu_si512(p), it = _mm512_set1_epi64(static_cast<Int>(s));
            const __m512i alive = _mm512_set1_epi64(static_cast<Int>(alive_[f]));
            const __m512i differs = equal ? _mm512_xor_si512(eight, it) : _mm512_andnot_si512(it, eight);
            mask &= _mm512_testn_epi64_mask(differs, alive);
#else
            for (int i = 0; i < 8; ++i)
                if ((equal ? p[i] ^ s : p[i] & ~s) & alive_[f]) mask &= ~(1u << i);
#endif
        }
        return mask;
    }

    // Residual weights of the gains after what their survival costs.
    void residuals(const Node& node, bool is_first) {
        ++counts_.flows;
        if (is_first) {
            sign_rows(node, true);
            sign_rows(node, false);
        }
        for (const int r : gain_list_) residual_[r] = side_.gain.weight[r];
        if (side_.has_rewards)
            for (std::size_t p = 0; p < gain_list_.size(); ++p)
                for (const auto& [n, v] : side_.rewards[gain_list_[p]]) {
                    if (!(node.losses[n / 64] >> (n % 64) & 1)) continue;
                    const bool is_kept = unremovable_[n / 64] >> (n % 64) & 1;
                    if (options_.flow == Flow::none ? is_kept : forces(static_cast<int>(p), loss_position_[n])) residual_[gain_list_[p]] -= v;
                }
        if (options_.flow == Flow::none) return;
        if (options_.flow == Flow::pairs) {
            for (const int r : loss_list_) remaining_[r] = unremovable_[r / 64] >> (r % 64) & 1 ? 0 : side_.loss.weight[r];
            for (const auto& matching : side_.matchings)
                for (const auto& [p, n] : matching) {
                    if (!(node.gains[p / 64] >> (p % 64) & 1) || !(node.losses[n / 64] >> (n % 64) & 1)) continue;
                    const Int amount = unremovable_[n / 64] >> (n % 64) & 1 ? 0 : std::min(residual_[p], remaining_[n]);
                    if (amount == 0 || !forces(gain_position_[p], loss_position_[n])) continue;
                    residual_[p] -= amount;
                    remaining_[n] -= amount;
                }
            return;
        }
        const bool equal = options_.flow == Flow::classes;
        const int blocks = static_cast<int>(gain_list_.size() + 7) / 8;
        open_.assign(blocks, 0);
        for (std::size_t p = 0; p < gain_list_.size(); ++p) open_[p / 8] |= static_cast<unsigned char>((residual_[gain_list_[p]] > 0) << (p % 8));
        for (std::size_t n = 0; n < loss_list_.size(); ++n) {
            const int r = loss_list_[n];
            if (unremovable_[r / 64] >> (r % 64) & 1) continue;
            Int left = side_.loss.weight[r];
            for (int block = 0; block < blocks && left > 0; ++block) {
                if (open_[block] == 0) continue;
                for (unsigned mask = forcing(block, static_cast<int>(n), equal); mask != 0 && left > 0; mask &= mask - 1) {
                    Int& residual = residual_[gain_list_[8 * block + std::countr_zero(mask)]];
                    const Int amount = std::min(residual, left);
                    residual -= amount;
                    left -= amount;
                    if (residual == 0) open_[block] &= static_cast<unsigned char>(~(mask & -mask));
                }
            }
        }
    }

    void expand(Node& node) {
        ++counts_.popped;
        counts_.tested += static_cast<Int>(node.allowed.size());
        if (node.order + 1 >= static_cast<int>(costs_.size())) return;
        intersect(node);
        if (node.order + 2 >= static_cast<int>(costs_.size())) {
            counts_.expanded += !node.allowed.empty();
            counts_.children += static_cast<Int>(node.allowed.size());
            for (std::size_t i = 0; i < node.allowed.size(); ++i) {
                const Int value = covered_weight_[i] - spent(&covered_gains_[i * a_], &covered_losses_[i * b_]) - costs_[node.order + 1];
                if (value > best_.value) offer(value, node.path, node.allowed[i]);
            }
            return;
        }
        const Int threshold = pruning_ + costs_[node.order + 1];
        Int fixed = 0;
        for (bool again = true; again && !node.allowed.empty();) {
            fixed = unremovable_weight(node);
            again = keep_if(node, [&](int i) { return covered_weight_[i] - fixed > threshold; });
            again = drop_dominated(node) || again;
        }
        if (node.allowed.empty()) return;
        if (options_.flow == Flow::none && !side_.has_rewards) {
            for (std::size_t i = 0; i < node.allowed.size(); ++i) child_bound_[i] = covered_weight_[i] - fixed;
        } else {
            counts_.listed += static_cast<Int>(node.allowed.size());
            counts_.wide += node.allowed.size() > 64;
            flow(node, fixed, threshold);
        }
        if (node.allowed.empty()) return;
        ++counts_.expanded;
        counts_.children += static_cast<Int>(node.allowed.size());
        add_children(node);
    }

    // Flow and elimination in turns; the literals left have bounds above the threshold.
    void flow(Node& node, Int fixed, Int threshold) {
        const int n = static_cast<int>(node.allowed.size());
        slot_.resize(n);
        for (int i = 0; i < n; ++i) slot_[i] = i;
        alive_.assign((n + 63) / 64, ~Word{0});
        for (int pass = 0;; ++pass) {
            residuals(node, pass == 0);
            for (std::size_t i = 0; i < node.allowed.size(); ++i)
                child_bound_[i] = sum_over(residual_.data(), &covered_gains_[i * a_], a_) - fixed;
            int kept = 0;
            const bool is_fewer = keep_if(node, [&](int i) {
                const bool is_kept = child_bound_[i] > threshold;
                if (is_kept) slot_[kept++] = slot_[i];
                else alive_[slot_[i] / 64] &= ~(Word{1} << (slot_[i] % 64));
                return is_kept;
            });
            if (!is_fewer || node.allowed.empty() || pass + 1 >= options_.passes) return;
            fixed = unremovable_weight(node);
        }
    }

    void add_children(Node& node) {
        const int n = static_cast<int>(node.allowed.size());
        order_.resize(n);
        for (int i = 0; i < n; ++i) order_[i] = i;
        if (options_.tail) std::sort(order_.begin(), order_.end(), [&](int i, int j) {
            return child_bound_[i] != child_bound_[j] ? child_bound_[i] < child_bound_[j] : node.allowed[i] < node.allowed[j];
        });
        sorted_.resize(n);
        for (int i = 0; i < n; ++i) sorted_[i] = node.allowed[order_[i]];
        const Int cost = costs_[node.order + 1];
        for (int i = 0; i < n; ++i) {
            const int at = order_[i];
            const Word* gains = &covered_gains_[static_cast<std::size_t>(at) * a_];
            const Word* losses = &covered_losses_[static_cast<std::size_t>(at) * b_];
            offer(covered_weight_[at] - spent(gains, losses) - cost, node.path, node.allowed[at]);
            if (i + 1 < n) push(child_bound_[at] - cost, node.order + 1, gains, losses, &sorted_[i + 1], n - 1 - i, node.path, sorted_[i]);
        }
    }

    const Options& options_;
    const Side& side_;
    Best& best_;
    Counts& counts_;
    Clock::time_point deadline_;
    const int a_, b_;  // words of a set of gains and of losses
    std::vector<Int> costs_;
    bool is_free_ = false;
    Int pruning_ = 0;
    std::vector<Word> stack_;

    std::vector<int> position_, gain_position_, loss_position_, num_gains_, num_losses_, gain_list_, loss_list_, bucket_, slot_, order_;
    std::vector<Word> covered_gains_, covered_losses_, unremovable_, raw_, gain_signature_, loss_signature_, alive_;
    std::vector<Int> covered_weight_, child_bound_, residual_, remaining_;
    std::vector<char> dropped_;
    std::vector<unsigned char> open_;  // gains with a residual, eight a byte
    std::vector<std::uint16_t> sorted_;
    std::vector<std::pair<int, int>> found_;
    int signature_words_ = 0, gain_stride_ = 0, loss_stride_ = 0;
};

template <typename T>
std::vector<T> read(Int many) {
    std::vector<T> values(many);
    if (many > 0 && std::fread(values.data(), sizeof(T), many, stdin) != static_cast<std::size_t>(many))
        throw std::runtime_error("the input is too short");
    return values;
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i], value = argv[i + 1];
        if (name == "--flow" && value == "none") options.flow = Flow::none;
        else if (name == "--flow" && value == "classes") options.flow = Flow::classes;
        else if (name == "--flow" && value == "greedy") options.flow = Flow::greedy;
        else if (name == "--flow" && value == "pairs") options.flow = Flow::pairs;
        else if (name == "--rounds") options.rounds = std::stoi(value);
        else if (name == "--nested") options.nested = value == "all" ? -1 : std::stoi(value);
        else if (name == "--batch") options.batch = std::max(1, std::stoi(value));
        else if (name == "--beam") options.beam = std::stoi(value);
        else if (name == "--passes") options.passes = std::max(1, std::stoi(value));
        else if (name == "--tail") options.tail = std::stoi(value) != 0;
        else if (name == "--cap") options.cap = std::stod(value);
        else throw std::runtime_error("unknown option: " + name + " " + value);
    }
    if (argc % 2 == 0) throw std::runtime_error("an option has no value");
    return options;
}

int search(const Options& options) {
    const std::vector<Int> sizes = read<Int>(4);
    Instance instance;
    instance.rows = sizes[0];
    instance.features = sizes[1];
    if (2 * instance.features > 65535) throw std::runtime_error("too many features");
    instance.costs = read<Int>(sizes[2]);
    instance.weights = read<Int>(instance.rows);
    for (Int i = 0; i < sizes[3]; ++i) {
        const std::vector<Int> triple = read<Int>(3);
        instance.pairs.push_back({triple[0], triple[1], triple[2]});
    }
    instance.labels = read<std::int8_t>(instance.rows);
    instance.x = read<std::uint8_t>(instance.rows * instance.features);

    const auto started = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - started).count(); };
    const auto deadline = started + std::chrono::milliseconds(static_cast<Int>(std::min(options.cap, 1e9) * 1000));
    const Side sides[2] = {make_side(instance, 1, options), make_side(instance, -1, options)};
    Best best;
    Counts counts;
    Search first(instance, options, sides[0], best, counts, deadline), second(instance, options, sides[1], best, counts, deadline);
    const double made = seconds();
    first.beam();
    second.beam();
    const Int beam_value = best.value;
    const double beamed = seconds();
    const bool is_proven = best.sign > 0 ? first.run() && second.run() : second.run() && first.run();
    const double ended = seconds();

    std::printf("value %lld\nsign %d\nproven %d\nseconds %.9f\n", static_cast<long long>(best.value), best.sign, is_proven, ended);
    std::printf("nodes %lld\nexpanded %lld\nchildren %lld\ntested %lld\nflows %lld\nlisted %lld\nwide %lld\n", static_cast<long long>(counts.popped),
                static_cast<long long>(counts.expanded), static_cast<long long>(counts.children), static_cast<long long>(counts.tested),
                static_cast<long long>(counts.flows), static_cast<long long>(counts.listed), static_cast<long long>(counts.wide));
    std::printf("beam_value %lld\nsetup_seconds %.9f\nbeam_seconds %.9f\n", static_cast<long long>(beam_value), made, beamed - made);
    std::printf("positive_rows %d\nnegative_rows %d\ndistinct_literals %d\n", sides[0].gain.size, sides[0].loss.size, sides[0].literals);
    std::printf("literals");
    for (const int l : best.literals) std::printf(" %d", l);
    std::printf("\n");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return search(parse(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
