package tare.workloads;

import com.google.zxing.BarcodeFormat;
import com.google.zxing.BinaryBitmap;
import com.google.zxing.RGBLuminanceSource;
import com.google.zxing.ReaderException;
import com.google.zxing.WriterException;
import com.google.zxing.common.BitMatrix;
import com.google.zxing.common.HybridBinarizer;
import com.google.zxing.qrcode.QRCodeReader;
import com.google.zxing.qrcode.QRCodeWriter;
import java.util.SplittableRandom;

/** ZXing draws texts as QR codes and reads them back. The size is their number. */
final class ZXing implements Workload {
    private static final int CODES = 200;
    private static final int SIDE = 400;
    private static final int VOCABULARY = 3_000;
    private static final int WHITE = 0xFFFFFF;
    private static final int UNREAD = -1;

    private final Text text = new Text(VOCABULARY);
    private final int codes;
    private final int threads;
    private final long seed;

    ZXing(Options options) {
        codes = options.sizeOr(CODES);
        threads = options.threads();
        seed = options.seed();
    }

    @Override
    public long iterate() throws Exception {
        return Parallel.sum(threads, codes, () -> this::drawAndRead);
    }

    private long drawAndRead(int number) throws WriterException {
        SplittableRandom random = new SplittableRandom(Digest.of(seed, number));
        String written = text.passage(random.nextInt(5, 40), random);
        BitMatrix code = new QRCodeWriter().encode(written, BarcodeFormat.QR_CODE, SIDE, SIDE);
        int[] pixels = new int[SIDE * SIDE];
        for (int i = 0; i < pixels.length; i++) {
            pixels[i] = code.get(i % SIDE, i / SIDE) ? 0 : WHITE;
        }
        RGBLuminanceSource picture = new RGBLuminanceSource(SIDE, SIDE, pixels);
        String read;
        try {
            read = new QRCodeReader().decode(new BinaryBitmap(new HybridBinarizer(picture))).getText();
        } catch (ReaderException error) {
            // It finds codes in photographs, and does not find every one.
            return Digest.of(number, UNREAD);
        }
        if (!read.equals(written)) {
            throw new IllegalStateException("code " + number + " was read as another text");
        }
        return Digest.of(read);
    }
}
