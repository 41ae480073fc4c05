// Reads commands from stdin for a client of a library: see tests/all/clients/program.rs.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Scanner;

abstract class Driver {
    /** Waits for the lock. Answers "got". */
    abstract String acquire(String name, String millis) throws Exception;

    /** Answers "released", or "lost" if the client no longer held the lock. */
    abstract String release(String name);

    /** A command that only this client has. */
    String other(String[] words) throws Exception {
        throw new IllegalArgumentException(words[0]);
    }

    private String count(String name, Path path, int holds) throws Exception {
        for (int done = 0; done < holds; ) {
            acquire(name, "20000");
            String[] words = Files.readString(path).split(" ");
            if (!words[1].equals("theirs")) {
                Thread.sleep(1);
                Files.writeString(path, Integer.parseInt(words[0]) + 1 + " theirs");
                done++;
            }
            if (!release(name).equals("released")) throw new IllegalStateException("lost");
            Thread.sleep(30);
        }
        return "counted";
    }

    void run() throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "acquire" -> acquire(words[1], words[2]);
                case "release" -> release(words[1]);
                case "count" -> count(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
                default -> other(words);
            });
        }
        System.exit(0);
    }
}
