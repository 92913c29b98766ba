package tare.workloads;

import java.awt.image.BufferedImage;
import java.awt.image.DataBufferInt;
import java.io.StringReader;
import java.util.SplittableRandom;
import org.apache.batik.transcoder.TranscoderException;
import org.apache.batik.transcoder.TranscoderInput;
import org.apache.batik.transcoder.TranscoderOutput;
import org.apache.batik.transcoder.image.ImageTranscoder;

/** Batik draws made-up pictures in SVG. They have no text, so no font of the machine is needed. */
final class Batik implements Workload {
    private static final int PICTURES = 5;
    private static final int SIDE = 400;
    private static final int SHAPES = 150;

    private final int pictures;
    private final int threads;
    private final long seed;

    Batik(Options options) {
        pictures = options.sizeOr(PICTURES);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, pictures, () -> this::draw);
    }

    private long draw(int number) throws TranscoderException {
        Canvas canvas = new Canvas();
        TranscoderInput input = new TranscoderInput(new StringReader(picture(number)));
        input.setURI("file:/picture" + number + ".svg");
        canvas.transcode(input, null);
        int[] pixels = ((DataBufferInt) canvas.image.getRaster().getDataBuffer()).getData();
        long digest = 0;
        for (int pixel : pixels) {
            digest = digest * 31 + pixel;
        }
        return Digest.of(digest, number);
    }

    private static final class Canvas extends ImageTranscoder {
        private BufferedImage image;

        @Override
        public BufferedImage createImage(int width, int height) {
            return new BufferedImage(width, height, BufferedImage.TYPE_INT_ARGB);
        }

        @Override
        public void writeImage(BufferedImage drawn, TranscoderOutput output) {
            image = drawn;
        }
    }

    private String picture(int number) {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        StringBuilder svg = new StringBuilder("<svg xmlns=\"http://www.w3.org/2000/svg\" ");
        svg.append("width=\"" + SIDE + "\" height=\"" + SIDE + "\"><defs>");
        for (int i = 0; i < 4; i++) {
            svg.append("<linearGradient id=\"g").append(i).append("\"><stop offset=\"0\" stop-color=\"");
            svg.append(colour(random)).append("\"/><stop offset=\"1\" stop-color=\"");
            svg.append(colour(random)).append("\"/></linearGradient>");
        }
        svg.append("<filter id=\"blur\"><feGaussianBlur stdDeviation=\"3\"/></filter></defs>");
        for (int shape = 0; shape < SHAPES; shape++) {
            svg.append("<path transform=\"rotate(").append(random.nextInt(360)).append(" 200 200)\" ");
            svg.append("fill=\"url(#g").append(random.nextInt(4)).append(")\" opacity=\"0.7\" stroke=\"");
            svg.append(colour(random)).append(shape % 25 == 0 ? "\" filter=\"url(#blur)\" d=\"M" : "\" d=\"M");
            point(svg, random);
            for (int part = 0; part < 8; part++) {
                svg.append(" C");
                point(svg, random);
                point(svg, random);
                point(svg, random);
            }
            svg.append(" Z\"/>");
        }
        return svg.append("</svg>").toString();
    }

    private static void point(StringBuilder svg, SplittableRandom random) {
        svg.append(random.nextInt(SIDE)).append(' ').append(random.nextInt(SIDE)).append(' ');
    }

    private static String colour(SplittableRandom random) {
        return String.format("#%06x", random.nextInt(1 << 24));
    }
}
