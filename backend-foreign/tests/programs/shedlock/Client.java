// A client of ShedLock's JdbcTemplate provider, driven by lines on stdin: see tests/all/clients/program.rs.
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

class Client {
    static JdbcTemplate template;
    static JdbcTemplateLockProvider provider;
    static final Map<String, SimpleLock> held = new HashMap<>();

    /** Its jobs do not wait: one that is to run asks again. */
    static String acquire(String name, String millis, Duration atLeast) throws Exception {
        while (true) {
            Duration atMost = Duration.ofMillis(Long.parseLong(millis));
            var lock = provider.lock(new LockConfiguration(Instant.now(), name, atMost, atLeast));
            if (lock.isPresent()) {
                held.put(name, lock.get());
                return "got";
            }
            Thread.sleep(20);
        }
    }

    /** An unlock does not tell whether it has found the lock: the row does. */
    static String release(String name) {
        String row = "SELECT concat(locked_by, ' ', lock_until) FROM shedlock WHERE name = ?";
        String before = template.queryForObject(row, String.class, name);
        held.remove(name).unlock();
        return before.equals(template.queryForObject(row, String.class, name)) ? "lost" : "released";
    }

    static String count(String name, Path path, int holds) throws Exception {
        for (int done = 0; done < holds; ) {
            acquire(name, "20000", Duration.ZERO);
            String[] words = Files.readString(path).split(" ");
            if (!words[1].equals("theirs")) {
                Thread.sleep(1);
                Files.writeString(path, Integer.parseInt(words[0]) + 1 + " theirs");
                done++;
            }
            if (!release(name).equals("released")) throw new IllegalStateException("lost");
            Thread.sleep(50);
        }
        return "counted";
    }

    public static void main(String[] args) throws Exception {
        String url = args[0].equals("mysql")
            ? "jdbc:mariadb://" + args[1] + "/test?user=root"
            : "jdbc:postgresql://" + args[1] + "/postgres?user=postgres";
        template = new JdbcTemplate(new DriverManagerDataSource(url));
        provider = new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
            .withJdbcTemplate(template)
            .usingDbTime()
            .build());
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            System.out.println(switch (words[0]) {
                case "acquire" -> acquire(words[1], words[2], Duration.ZERO);
                // For at least the time that is named last.
                case "least" -> acquire(words[1], words[2], Duration.ofMillis(Long.parseLong(words[3])));
                case "release" -> release(words[1]);
                case "count" -> count(words[1], Path.of(words[2]), Integer.parseInt(words[3]));
                default -> throw new IllegalArgumentException(words[0]);
            });
        }
    }
}
