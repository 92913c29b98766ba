package tare.workloads;

import java.util.SplittableRandom;
import org.biojava.nbio.alignment.Alignments;
import org.biojava.nbio.alignment.Alignments.PairwiseSequenceAlignerType;
import org.biojava.nbio.alignment.SimpleGapPenalty;
import org.biojava.nbio.core.alignment.matrices.SubstitutionMatrixHelper;
import org.biojava.nbio.core.alignment.template.SequencePair;
import org.biojava.nbio.core.exceptions.CompoundNotFoundException;
import org.biojava.nbio.core.sequence.ProteinSequence;
import org.biojava.nbio.core.sequence.compound.AminoAcidCompound;

/** BioJava aligns made-up proteins with mutations of themselves. The size is their number. */
final class BioJava implements Workload {
    private static final int PROTEINS = 40;
    private static final int LENGTH = 400;
    private static final String AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY";

    private final int proteins;
    private final int threads;
    private final long seed;

    BioJava(Options options) {
        proteins = options.sizeOr(PROTEINS);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, proteins, () -> this::align);
    }

    private long align(int number) throws CompoundNotFoundException {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        StringBuilder one = new StringBuilder();
        StringBuilder other = new StringBuilder();
        for (int place = 0; place < LENGTH; place++) {
            char acid = acid(random);
            one.append(acid);
            switch (random.nextInt(10)) {
                case 0 -> other.append(acid(random));
                case 1 -> other.append(acid).append(acid(random));
                case 2 -> {}
                default -> other.append(acid);
            }
        }
        SequencePair<ProteinSequence, AminoAcidCompound> pair =
                Alignments.getPairwiseAlignment(
                        new ProteinSequence(one.toString()),
                        new ProteinSequence(other.toString()),
                        PairwiseSequenceAlignerType.GLOBAL,
                        new SimpleGapPenalty(),
                        SubstitutionMatrixHelper.getBlosum62());
        return Digest.of(pair.toString());
    }

    private static char acid(SplittableRandom random) {
        return AMINO_ACIDS.charAt(random.nextInt(AMINO_ACIDS.length()));
    }
}
