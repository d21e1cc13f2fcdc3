package fusionx;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the generated Kotlin class declares, in Java: runs a bundle on files, in a Java machine. */
public class Net {
    private static native long nativeOpen(byte[] weights);

    private static native void nativeClose(long handle);

    private static native ByteBuffer nativeBuffer(long handle, int number);

    private static native int nativeRun(long handle);

    private static native int nativeThreads(int threads);

    private static void expect(boolean isRight, String what) {
        if (!isRight) throw new IllegalStateException(what);
    }

    private static void clear(long handle, int begin, int end) {
        for (int number = begin; number < end; ++number) {
            ByteBuffer buffer = nativeBuffer(handle, number);
            while (buffer.hasRemaining()) buffer.put((byte) 0);
        }
    }

    public static void main(String[] words) throws Exception {
        System.load(words[0]);
        expect(nativeOpen("no/such/file\0".getBytes()) < 0, "a file that is not there");
        expect(nativeOpen(new byte[] {'x'}) < 0 && nativeOpen(new byte[0]) < 0, "a path without end");
        long handle = nativeOpen(null);
        expect(handle > 0, "status " + -handle);
        for (int number = 0; number < 2; ++number)
            nativeBuffer(handle, number).put(Files.readAllBytes(Path.of(words[1 + number])));
        expect(nativeThreads(65) != 0 && nativeThreads(-1) != 0, "threads that no pool has");
        for (int threads : new int[] {1, 3, 0, 2, 2}) {
            expect(nativeThreads(threads) == 0, "threads");
            clear(handle, 2, 6);
            expect(nativeRun(handle) == 0, "run");
        }
        for (int number = 2; number < 6; ++number) {
            ByteBuffer buffer = nativeBuffer(handle, number).order(ByteOrder.nativeOrder());
            byte[] content = new byte[buffer.capacity()];
            buffer.get(content);
            Files.write(Path.of(words[1 + number]), content);
        }
        expect(nativeBuffer(handle, 6) == null, "a buffer too many");
        expect(nativeRun(0) != 0, "no instance");
        nativeClose(handle);
        nativeClose(0);
    }
}
